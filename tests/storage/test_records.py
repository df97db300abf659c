from pathlib import Path

from tercet.storage import records
from tercet.storage.store import open_store


def test_a_round_belongs_to_one_step_and_one_key(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))
    assert records.current_round(store, "synthesise.rewrite", "k") == 0
    for number in range(1, 12):
        records.next_round(store, "synthesise.rewrite", "k")
        assert records.current_round(store, "synthesise.rewrite", "k") == number
    assert records.current_round(store, "synthesise.rewrite", "other") == 0
    assert records.current_round(store, "synthesise.antisense", "k") == 0
