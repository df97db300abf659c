"""Rounds: how often a step asked again about its failed rows (`tercet run --retry-failed`).

rounds/<step>/<key>/0002.json    created if absent; the highest number counts
"""

from tercet.storage.store import Store


def current(store: Store, step: str, key: str) -> int:
    """The step's current round; 0 if it never asked again."""
    names = store.list(f"rounds/{step}/{key}")
    return max((int(name.removesuffix(".json")) for name in names), default=0)


def advance(store: Store, step: str, key: str) -> None:
    """Starts the next round. Two runs that do so at once start the same one."""
    number = current(store, step, key) + 1
    store.create_json(f"rounds/{step}/{key}/{number:04d}.json", {"round": number})
