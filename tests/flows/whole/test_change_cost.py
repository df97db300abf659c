"""What a change costs: `tercet plan` names the component, and a run makes what follows, no more.

Code is edited in a copy of our packages, which the command line then runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tiny_run import (
    DOCUMENTS,
    WARNED,
    Finished,
    copy_code,
    copy_of,
    documents,
    ended_well,
    query,
    record_of,
    states,
    tercet,
    write_corpus,
)

SYNTHESIS = {
    f"synthesise.{method}"
    for method in ("next_sentences", "word_repetition", "entity_swap", "quantity_change", "random")
}
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


@pytest.fixture
def code_bench(bench: Bench, tmp_path: Path) -> Bench:
    """The same with a copy of the code, which gives the same versions."""
    copied = Bench(bench.store, bench.recipe, copy_code(tmp_path / "code"))
    assert to_run(copied.plan()) == {}
    return copied


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


def test_another_seed_costs_all_that_draws(bench: Bench) -> None:
    planned = to_run(bench.plan("--seed", "8"))
    assert planned["ingest"].startswith("seed: 7 → 8")
    assert "seed: 7 → 8" in planned["synthesise.word_repetition"]
    assert "seed" not in planned["extract"]
    assert planned["extract"].startswith("input sentences")


def test_a_comment_or_a_docstring_costs_nothing(code_bench: Bench) -> None:
    for module in (
        "tasks.knowledge.extract",
        "tasks.scoring.select",
        "tasks.training.train",
        "models.rules.noise",
    ):
        code_bench.edit(module, lambda text: text + "\n\n# Nobody reads this.\n")
    code_bench.edit(
        "tasks.corpus.ingest",
        lambda text: text.replace('"""Stage `ingest`', '"""The stage `ingest`', 1),
    )
    code_bench.edit(
        "models.rules.paragraphs", lambda text: text.replace("def ", "def  ", 1) + "\n\n\n"
    )
    assert to_run(code_bench.plan()) == {}
    assert made(code_bench.run()) == set()


def test_a_changed_helper_costs_the_steps_that_use_it(code_bench: Bench) -> None:
    code_bench.edit("models.knowledge.replacements", lambda text: text + "\nEXTRA = 1\n")
    planned = to_run(code_bench.plan())
    users = {"synthesise.entity_swap"}
    assert set(planned) == users | AFTER_SYNTHESIS
    for step in users:
        assert planned[step].startswith("code of models.knowledge.replacements")
    for step in AFTER_SYNTHESIS:
        assert "code" not in planned[step]


def test_a_changed_rule_costs_its_own_method(code_bench: Bench) -> None:
    code_bench.edit(
        "models.rules.noise",
        lambda text: text.replace("share: float = Field(0.3", "share: float = Field(0.5"),
    )
    planned = to_run(code_bench.plan())
    assert set(planned) == {"synthesise.word_repetition", *AFTER_SYNTHESIS}
    assert "code of models.rules.noise" in planned["synthesise.word_repetition"]
    assert "config params.share: 0.3 → 0.5" in planned["synthesise.word_repetition"]
    run = made(code_bench.run("--until", "candidates"))
    assert run == {"synthesise.word_repetition", "parse"}


def test_an_edit_that_changes_no_row_ends_where_it_began(code_bench: Bench) -> None:
    """Extraction is made again; what reads equal content refers to the parts that stand."""
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


TOY_SCORER = '''
"""Scorer `toy`: a positive of an even number of letters is right, and no negative is."""

import numpy as np

from tercet.tasks.scoring.score import SCORES, STAGE_NAME, Scorer, emit_scores
from tercet.tasks.stage import Config, Stage, Work


class ToyConfig(Config):
    """How sure it is."""

    sure: float = 0.9


def run(work: Work) -> None:
    columns = ["candidate_id", "role", "text"]
    for batch in work.inputs["candidates"].batches("candidates", columns):
        rows = zip(batch["role"].to_pylist(), batch["text"].to_pylist(), strict=True)
        right = np.array([role == "positive" and len(text) % 2 == 0 for role, text in rows])
        values = np.where(right, work.config.sure, 1 - work.config.sure)
        emit_scores(work, "toy", "p_true", batch, values)


STAGE = Stage(STAGE_NAME, ToyConfig, {"scores": SCORES}, run, each="candidates", seeded=False)
SCORER = Scorer("toy", "p_true", STAGE)
'''


def test_a_scorer_is_a_module_and_a_line(code_bench: Bench) -> None:
    assert code_bench.tree is not None
    path = code_bench.tree / "tercet" / "tasks" / "scoring" / "toy.py"
    path.write_text(TOY_SCORER)
    code_bench.edit(
        "tasks.scoring.scorers",
        lambda text: text.replace("gense, pair\n", "gense, pair, toy\n").replace(
            "pair.SCORER, ", "pair.SCORER, toy.SCORER, "
        ),
    )
    assert to_run(code_bench.plan()) == {}
    listed = ("--set", "score.toy={}")
    assert set(to_run(code_bench.plan(*listed))) == {"score.toy"}
    asked = (*listed, "--set", "select.p_true=toy", "--set", "select.p_min=0.5")
    planned = to_run(code_bench.plan(*asked))
    assert set(planned) == {"score.toy", "select", "train", "evaluate.encoder"}
    assert made(code_bench.run(*asked, "--until", "triplets")) == {"score.toy", "select"}
    values = "SELECT DISTINCT scorer, measure FROM scores ORDER BY ALL"
    assert query(code_bench.store, values) == [("evaluator", "similarity"), ("toy", "p_true")]
    # Of what keeps the meaning, only the probable stands in a triplet; the others say why.
    joined = """FROM candidates c JOIN scores s USING (candidate_id)
        JOIN {} WHERE s.scorer = 'toy' AND c.relation = 'keeps'"""
    accepted = joined.format("triplets t ON t.positive_id = c.candidate_id")
    least = query(code_bench.store, f"SELECT min(s.value), count(*) {accepted}")[0]
    assert least[1] > 0
    assert least[0] >= 0.5
    refused = joined.format("rejects r ON r.row_id = c.candidate_id")
    most = query(
        code_bench.store,
        f"SELECT max(s.value), count(*) {refused} AND r.reason = 'below_p_min'",
    )[0]
    assert most[1] > 0
    assert most[0] < 0.5


def test_a_line_in_a_registry_costs_nothing(code_bench: Bench) -> None:
    code_bench.edit("tasks.synthesis.methods", lambda text: text + "\nMORE = 1\n")
    assert to_run(code_bench.plan()) == {}


@pytest.fixture(scope="module")
def grown(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The finished store after a run, up to the embeddings, with documents added to the corpus."""
    folder = tmp_path_factory.mktemp("grown")
    corpus = folder / "prose.jsonl"
    write_corpus(corpus, [*documents(DOCUMENTS), *documents(20, seed=2)])
    recipe = yaml.safe_load(finished.tiny.recipe.read_text())
    recipe["corpora"][0]["source"] = str(corpus)
    bench = Bench(copy_of(finished.store, folder / "store"), folder / "tiny.yaml", None)
    bench.recipe.write_text(yaml.safe_dump(recipe))
    assert to_run(bench.plan())["ingest"].startswith("file prose")
    bench.run("--until", "embed")
    return bench


def _keeps_old_parts(finished: Finished, grown: Bench, step: str) -> None:
    before = [files(record) for record in record_of(finished.store, step).values()]
    after = [files(record) for record in record_of(grown.store, step).values()]
    assert len(before) >= 3
    # The last of the old parts gets company, so that it is another one.
    kept = [part for part in after if part in before]
    assert len(kept) >= len(before) - 1
    assert len(kept) < len(after)


def test_new_documents_leave_the_parts_of_extraction(finished: Finished, grown: Bench) -> None:
    _keeps_old_parts(finished, grown, "extract")


@pytest.mark.parametrize("method", ["next_sentences", "word_repetition"])
def test_new_documents_leave_the_parts_of_synthesis(
    finished: Finished, grown: Bench, method: str
) -> None:
    _keeps_old_parts(finished, grown, f"synthesise.{method}")


def test_new_documents_encode_new_texts_alone(finished: Finished, grown: Bench) -> None:
    known = {row[0] for row in query(finished.store, "SELECT text_id FROM embeddings")}
    texts = query(grown.store, "SELECT text_id FROM embeddings")
    assert len(texts) == len(set(texts))
    new = {row[0] for row in texts} - known
    assert 0 < len(new) < len(known) / 2
    # The first part hands on what was known; the others hold what had to be encoded.
    records = record_of(grown.store, "embed").values()
    rows = [sum(f["rows"] for f in record["tables"]["embeddings"]) for record in records]
    assert sum(rows[1:]) == len(new)


def files(record: dict[str, object]) -> list[str]:
    """The data files that a part record names."""
    tables = record["tables"]
    assert isinstance(tables, dict)
    return [file["path"] for named in tables.values() for file in named]
