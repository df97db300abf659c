"""A whole run over another executor."""

from pathlib import Path

from tiny_run import Finished, digest_of, states
from toy_executor import Backwards

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps


def test_a_run_over_another_executor_makes_the_same_rows(
    finished: Finished, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    executor = Backwards()
    with open_run(
        prepare(RunArguments(str(finished.tiny.recipe), str(store))), executor=executor
    ) as run:
        run_steps(run)
    assert set(states(store).values()) == {"made"}
    expected = digest_of(finished.store, "triplets", "triplet_id")
    assert digest_of(store, "triplets", "triplet_id") == expected
    # No process of it lives while the encoder is trained, nor after the end.
    assert executor.said[executor.said.index("train") - 1] == "close"
    assert executor.said[-1] == "close"
