"""Code declared to give the same results as older code (`tercet accept`)."""

from tercet.storage.store import Store, json_bytes


def _path(stage: str, code: str) -> str:
    return f"accepted/{stage}/{code}.json"


def accepted(store: Store, stage: str, code: str) -> str:
    """The digest that this code counts as: its own, unless it was accepted as an older one's."""
    seen = {code}
    while (entry := store.get_json(_path(stage, code))) is not None:
        if entry["as"] in seen:
            break
        code = entry["as"]
        seen.add(code)
    return code


def accept(store: Store, stage: str, new: str, old: str) -> None:
    """Makes the stage's code `new` count as `old`, or as what `old` itself counts as."""
    meant = accepted(store, stage, old)
    if meant != new:
        store.replace(_path(stage, new), json_bytes({"as": meant}))
