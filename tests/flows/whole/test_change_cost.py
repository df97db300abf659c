"""What a change costs: `tercet plan` names the component, and a run makes what follows, no more.

Code is edited in a copy of our packages, which the command line then runs.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tiny_run import (
    WARNED,
    Finished,
    copy_code,
    copy_of,
    ended_well,
    query,
    record_of,
    states,
    tercet,
)

from tercet.storage.runs import list_runs
from tercet.storage.store import open_store

AFTER_SYNTHESIS = {"parse", "embed", "score.evaluator", "select", "train", "evaluate.encoder"}
# With mentions or with the graph: what extract has a part in.
WITH_MENTIONS = {"graph", "synthesise.entity_swap", "synthesise.quantity_change"}


@dataclass(frozen=True)
class Bench:
    """A finished store of one's own, with a recipe and code that may be edited."""

    store: Path
    recipe: Path
    tree: Path | None

    def plan(self, *options: str) -> dict[str, tuple[str, str]]:
        """Step to what would become of it (reuse, resume, run) and why."""
        words = ["plan", str(self.recipe), "--store", str(self.store), *options]
        lines = ended_well(tercet(*words, tree=self.tree)).stdout.splitlines()
        # The steps end with their number; what may follow is no step.
        lines = lines[: next(i for i, line in enumerate(lines) if " steps: " in line)]
        lines = [line for line in lines if not WARNED.match(line)]
        parsed = [f"{line}  ".split(maxsplit=2) for line in lines]
        return {step: (state, "".join(why)) for step, state, *why in parsed}

    def run(self, *options: str) -> dict[str, str]:
        """Step to what became of it (reused, resumed, made)."""
        words = ["run", str(self.recipe), "--no-server", "--store", str(self.store), *options]
        ended_well(tercet(*words, tree=self.tree))
        return states(self.store)

    def edit(self, module: str, change: Callable[[str], str]) -> None:
        """Changes one file of the copied code."""
        assert self.tree is not None
        path = self.tree / "tercet" / f"{module.replace('.', '/')}.py"
        before = path.read_text()
        after = change(before)
        assert after != before
        path.write_text(after)


@pytest.fixture
def bench(finished: Finished, tmp_path: Path) -> Bench:
    """The store of the finished run, and the code as it is."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(finished.tiny.recipe.read_text())
    return Bench(copy_of(finished.store, tmp_path / "store"), recipe, None)


def to_run(plan: dict[str, tuple[str, str]]) -> dict[str, str]:
    """The steps that are not reused, and why."""
    return {step: why for step, (state, why) in plan.items() if state != "reuse"}


def made(run: dict[str, str]) -> set[str]:
    return {step for step, state in run.items() if state != "reused"}


def test_another_threshold_costs_selection_training_and_evaluation(bench: Bench) -> None:
    option = ("--set", "select.negative_max=0.995")
    planned = to_run(bench.plan(*option))
    assert set(planned) == {"select", "train", "evaluate.encoder"}
    assert planned["select"].startswith("config negative_max: 1.0 → 0.995")
    assert planned["train"].startswith("input triplets")
    assert planned["evaluate.encoder"].startswith("model model")
    assert made(bench.run(*option)) == {"select", "train", "evaluate.encoder"}
    assert to_run(bench.plan(*option)) == {}
    # And back again: the first results are still there.
    assert to_run(bench.plan()) == {}
    planned = to_run(bench.plan("--seed", "8"))
    assert planned["ingest"].startswith("seed: 7 → 8")
    assert planned["extract"].startswith("input sentences")


def test_diff_tells_a_changed_threshold_and_counts_the_rows_by_their_ids(bench: Bench) -> None:
    bench.run("--set", "select.negative_max=0.9")
    newer, older = [run["run_id"] for run in list_runs(open_store(str(bench.store)))][:2]
    words = ("diff", older, newer, "--store", str(bench.store), "--format", "json")
    diff = json.loads(ended_well(tercet(*words)).stdout)
    assert diff["recipe"] == [{"key": "select.negative_max", "a": "1.0", "b": "0.9"}]
    why = {step["step"]: step["why"] for step in diff["steps"] if step["why"]}
    assert why == {"select": ["config negative_max: 1.0 → 0.9"]}
    after = {step["step"]: step["after"] for step in diff["steps"] if step["after"]}
    assert after == {"train": ["select"], "evaluate.encoder": ["train"]}
    counts = {t["table"]: (t["added"], t["removed"], t["changed"]) for t in diff["tables"]}
    ids = [
        {row for (row,) in query(bench.store, "SELECT triplet_id FROM triplets", run)}
        for run in (older, newer)
    ]
    assert counts["triplets"][:2] == (len(ids[1] - ids[0]), len(ids[0] - ids[1])) != (0, 0)
    assert not {"mentions", "generations", "candidates", "scores"} & counts.keys()
    # Both encoders were measured on the same questions.
    (recall,) = [f for f in diff["figures"] if f["figure"] == "document pairs test, recall@1"]
    value = "SELECT value FROM evaluations WHERE phase = 'encoder' AND metric = 'recall@1'"
    measured = [query(bench.store, value, run)[0][0] for run in (older, newer)]
    assert [recall["a"], recall["b"]] == measured


def test_another_lexicon_costs_extraction_and_what_follows(bench: Bench, tmp_path: Path) -> None:
    lexicon = tmp_path / "animals.tsv"
    lexicon.write_text("noun\ttypes\nbear\tanimal\ncamel\tanimal\ncat\tanimal\ncow\tanimal\n")
    option = ("--set", f"extract.lexicon={lexicon}")
    planned = to_run(bench.plan(*option))
    assert set(planned) == {"extract", *WITH_MENTIONS, *AFTER_SYNTHESIS}
    assert planned["extract"].startswith("file lexicon")
    assert planned["graph"].startswith("input mentions")
    expected = {"extract", "parse", *WITH_MENTIONS}
    assert made(bench.run(*option, "--until", "candidates")) == expected
    # The same path with other words in it is another lexicon; a copy elsewhere is the same.
    moved = tmp_path / "moved.tsv"
    moved.write_bytes(lexicon.read_bytes())
    again = bench.plan("--set", f"extract.lexicon={moved}", "--until", "candidates")
    assert to_run(again) == {}
    lexicon.write_text(lexicon.read_text() + "horse\tanimal\n")
    assert to_run(bench.plan(*option))["extract"].startswith("file lexicon")


def test_code_costs_what_it_changes(bench: Bench, tmp_path: Path) -> None:
    """A comment costs nothing; a rule its own method; what changes no row ends where it began."""
    code_bench = replace(bench, tree=copy_code(tmp_path / "code"))
    for module in ("tasks.scoring.select", "tasks.training.train", "models.rules.noise"):
        code_bench.edit(module, lambda text: text + "\n\n# Nobody reads this.\n")
    code_bench.edit(
        "tasks.corpus.ingest",
        lambda text: text.replace('"""Stage `ingest`', '"""The stage `ingest`', 1),
    )
    assert to_run(code_bench.plan()) == {}
    assert made(code_bench.run()) == set()

    code_bench.edit(
        "models.rules.noise",
        lambda text: text.replace('" ".join(new)', '" ".join(new[:-1])'),
    )
    planned = to_run(code_bench.plan())
    assert set(planned) == {"synthesise.word_repetition", *AFTER_SYNTHESIS}
    assert "code of models.rules.noise" in planned["synthesise.word_repetition"]
    run = made(code_bench.run("--until", "candidates"))
    assert run == {"synthesise.word_repetition", "parse"}

    # Extraction is made again; what reads equal content refers to the parts that stand.
    before = {step: record_of(code_bench.store, step) for step in ("graph", "parse")}
    code_bench.edit("models.knowledge.quantities", lambda text: text + "\n_EXTRA = 1\n")
    planned = to_run(code_bench.plan())
    assert set(planned) == {"extract", *WITH_MENTIONS, *AFTER_SYNTHESIS}
    assert planned["extract"].startswith("code of models.knowledge.quantities")
    assert "code" not in planned["graph"]
    code_bench.run("--until", "candidates")
    version = query(code_bench.store, "SELECT version FROM artifacts WHERE step = 'extract'")
    assert len(version) == 2
    for step, records in before.items():
        after = record_of(code_bench.store, step)
        assert [files(r) for r in after.values()] == [files(r) for r in records.values()], step
        assert [r["created"] for r in after.values()] != [r["created"] for r in records.values()]


def files(record: dict[str, object]) -> list[str]:
    """The data files that a part record names."""
    tables = record["tables"]
    assert isinstance(tables, dict)
    return [file["path"] for named in tables.values() for file in named]
