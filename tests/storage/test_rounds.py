from pathlib import Path

from tercet.storage import rounds
from tercet.storage.store import open_store


def test_a_round_belongs_to_one_step_and_one_key(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    assert rounds.current(store, "synthesise.rewrite", "k") == 0
    for number in range(1, 12):
        rounds.advance(store, "synthesise.rewrite", "k")
        assert rounds.current(store, "synthesise.rewrite", "k") == number
    assert rounds.current(store, "synthesise.rewrite", "other") == 0
    assert rounds.current(store, "synthesise.antisense", "k") == 0
