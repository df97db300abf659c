"""Code that was accepted in the place of older code."""

from tercet.storage import accepted
from tercet.storage.store import Store


def test_accepted_code_follows_the_chain(store: Store) -> None:
    assert accepted.accepted(store, "parse", "c") == "c"
    accepted.accept(store, "parse", "b", "a")
    accepted.accept(store, "parse", "c", "b")
    assert accepted.accepted(store, "parse", "c") == "a"
    assert accepted.accepted(store, "select", "c") == "c"
    accepted.accept(store, "parse", "a", "c")
    assert accepted.accepted(store, "parse", "a") == "a"
