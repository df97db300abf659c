"""The steps of each seed, and the order in which they can be made side by side."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Made
from tercet.flows.running.chains import chains, reordered
from tercet.tasks.stage import Config, Stage

STAGE = Stage("toy", Config, {}, lambda work: None)


def step(name: str, *needs: str, model: str | None = None) -> Step:
    models = {} if model is None else {"encoder": Made(model)}
    return Step(name, STAGE, Config(), {"rows": needs} if needs else {}, models)


RUN = [
    step("ingest"),
    step("train", "ingest"),
    step("evaluate.encoder", "ingest", model="train"),
    # Of a later phase, and built with what was there before: it serves all seeds.
    step("entry_matrix.b", "ingest"),
    step("train.b", "entry_matrix.b", model="train"),
    step("train.seed8", "ingest"),
    step("evaluate.encoder.seed8", "ingest", model="train.seed8"),
    step("train.b.seed8", "entry_matrix.b", model="train.seed8"),
    step("compare", "evaluate.encoder", "evaluate.encoder.seed8"),
]


def names(steps: list[Step]) -> list[str]:
    return [one.name for one in steps]


def test_each_seed_has_its_steps_and_shared_ones_come_before() -> None:
    found = chains(RUN, range(7, 9))
    first = ["train", "evaluate.encoder", "train.b"]
    second = [f"{name}.seed8" for name in first]
    assert [names(chain) for chain in found] == [first, second]
    shared = ["ingest", "entry_matrix.b"]
    assert names(reordered(RUN, found)) == [*shared, *first, *second, "compare"]


def test_one_seed_has_no_chain_and_keeps_its_order() -> None:
    assert chains(RUN[:5], range(7, 8)) == []
    assert reordered(RUN, []) == RUN


def test_seeds_that_read_each_other_are_made_in_order() -> None:
    both = [*RUN[:5], step("train.seed8", "ingest", model="train")]
    assert chains(both, range(7, 9)) == []
