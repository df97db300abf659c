"""The choice of a checkpoint: dev alone decides, and nothing of test can."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from beir_folder import write_beir
from failures import fails
from stages import stored
from train_stage import call, inputs

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.settings import Prompts
from tercet.models.measures import metrics
from tercet.storage.rows import Rows
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.evaluation_rows import draw_pairs
from tercet.tasks.evaluation.suites.own import RetrievalSource
from tercet.tasks.evaluation.suites.sts import read_task
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import fit_evaluator, train
from tercet.tasks.training.choosers import chooser_of
from tercet.tasks.training.fit_evaluator import FitEvaluatorConfig
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import CheckpointConfig, TrainConfig

__all__ = ["inputs"]

PHASE = PhaseConfig.model_validate({"batch_size": 8, "epochs": 2, "learning_rate": 1e-3})
STAGE = train.STAGE


def pairs(texts: list[str], split: str, start: int = 0) -> pa.Table:
    rows = [
        {"pair_id": start + i, "doc_id": i, "query": q, "answer": a, "split": split}
        for i, (q, a) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    return pa.Table.from_pylist(rows, DOCUMENT_PAIRS)


def with_pairs(given: dict[str, Rows], folder: Path, *tables: pa.Table) -> dict[str, Rows]:
    return {**given, **stored(folder, document_pairs=pa.concat_tables(tables))}


def weights(path: Path) -> bytes:
    return (path / "model.safetensors").read_bytes()


def test_no_change_of_a_test_pair_moves_a_weight(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    config = TrainConfig(phase=PHASE, choose=CheckpointConfig(every=2))
    dev = pairs(tiny_texts[100:140], "dev")
    tests = {
        "some": pairs(tiny_texts[140:180], "test", 100),
        "others": pairs(tiny_texts[60:80][::-1], "test", 300),
        "dev's own, swapped": pairs(tiny_texts[100:140][::-1], "test", 500),
    }
    found, logs = [], []
    for name, test in tests.items():
        given = with_pairs(inputs, tmp_path / f"{name} pairs", test, dev)
        path, log, _ = call(STAGE, config, given, tiny_backbone, tmp_path / name)
        found.append(weights(path))
        logs.append([(row["step"], row["dev_value"], row["chosen"]) for row in log])
    assert found[0] == found[1] == found[2]
    assert logs[0] == logs[1] == logs[2]
    assert [step for step, _, _ in logs[0]] == [2, 4, 6]
    assert sum(chosen for _, _, chosen in logs[0]) == 1
    best = max(value for _, value, _ in logs[0])
    assert next(value for _, value, chosen in logs[0] if chosen) == best
    # Other dev pairs do count: the figures are theirs.
    given = with_pairs(inputs, tmp_path / "other", pairs(tiny_texts[60:100], "dev"))
    _, log, _ = call(STAGE, config, given, tiny_backbone, tmp_path / "dev")
    assert [row["dev_value"] for row in log] != [value for _, value, _ in logs[0]]
    assert {row["dev_metric"] for row in log} == {"retrieval document_pairs dev mrr"}
    assert {row["seed"] for row in log} == {3}


def test_the_choice_searches_with_the_prompts_of_the_encoder(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    before = ("the old file ", "red ")
    plain = load_encoder(tiny_backbone)
    sided = load_encoder(tiny_backbone, prompts=Prompts(query=before[0], document=before[1]))
    texts = tiny_texts[:80]
    written = [before[place % 2] + text for place, text in enumerate(texts)]

    def measured(model: Any, name: str, texts: list[str]) -> list[float | None]:
        folder = tmp_path / name
        table = pairs(texts, "dev")
        queries, answers = (
            {str(n): text for n, text in enumerate(table[side].to_pylist())}
            for side in ("query", "answer")
        )
        write_beir(folder, answers, queries, {"dev": [(key, key, 1) for key in queries]})
        given = with_pairs({}, tmp_path / f"{name} pairs", table)
        sets = {"own": RetrievalSource(source=str(folder))}
        found = []
        for by in ("retrieval", "own"):
            choose = CheckpointConfig(by=by)
            config = TrainConfig(phase=PHASE, choose=choose, retrieval_sets=sets)
            work = Work(config, 3, given, {}, {}, Resources(), tmp_path, lambda *_: None)
            _, measure = chooser_of(by).measure(work, config)
            found.append(measure(model))
        return found

    found = measured(sided, "sided", texts)
    assert found == pytest.approx(measured(plain, "written", written), abs=1e-4)
    assert found != pytest.approx(measured(plain, "plain", texts), abs=1e-2)


def sts(folder: Path, split: str, texts: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        f"news\tfile\t2020\t{i}\t{i % 6}\t{first}\t{second}"
        for i, (first, second) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    (folder / f"sts-{split}.csv").write_text("\n".join(lines) + "\n")


def test_no_change_of_a_test_file_moves_a_weight(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    found = []
    for name, test in (("some", tiny_texts[:40]), ("others", tiny_texts[40:80]), ("none", None)):
        folder = tmp_path / name / "STS" / "STSBenchmark"
        sts(folder, "dev", tiny_texts[100:160])
        if test is not None:
            sts(folder, "test", test)
        config = TrainConfig(
            phase=PHASE, choose=CheckpointConfig(every=3, by="STS-B"), suite=tmp_path / name
        )
        assert [p.name for p in STAGE.externals(config).values()] == ["sts-dev.csv"]
        path, log, _ = call(STAGE, config, inputs, tiny_backbone, tmp_path / f"w{name}")
        found.append((weights(path), [row["dev_value"] for row in log if row["dev_metric"]]))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) == 2
    assert log[-1]["dev_metric"] == "sts STS-B dev all spearman"


def test_without_dev_pairs_it_is_refused_before_any_step(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    config = TrainConfig(phase=PHASE, choose=CheckpointConfig())
    test = pairs(tiny_texts[100:140], "test")
    given = with_pairs(inputs, tmp_path, test)
    with fails("no_rows"):
        call(STAGE, config, given, tiny_backbone, tmp_path / "work")
    assert not (tmp_path / "work" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("recipe", "changes", "kind", "name"),
    [
        ("quickstart", ["train.choose={by: test}"], "unknown_name", "'test'"),
        ("quickstart", ["train.choose={}", "ingest.dev=0"], "missing_key", "ingest.dev"),
        ("quickstart", ["train.choose={by: STS-B}"], "missing_key", "evaluate.suite"),
        ("simcse", ["train.choose={by: fact_order}"], "missing_key", "fact_order"),
        ("simcse", ["train.choose={by: mien}", "evaluate.sts_sets={mine: a.tsv}"],
         "unknown_name", "'mine'"),
        ("simcse", ["corpora=[{name: a, source: a.txt}]"], "missing_key", "document pairs"),
        ("gcse_rules", ["evaluator.fit.choose={by: STS-B}"], "missing_key", "evaluator.fit.choose"),
        ("gcse_rules", ["evaluator.fit.choose={by: mien}"], "unknown_name", "'mien'"),
    ],
)  # fmt: skip
def test_a_recipe_that_cannot_choose_on_dev_is_refused(
    recipe: str, changes: list[str], kind: Any, name: str
) -> None:
    with fails(kind, "choose", name):
        recipe_file.load(recipe, changes)


def test_training_reads_dev_pairs_or_the_suite_only_where_it_chooses(tmp_path: Path) -> None:
    def train_step(*changes: str) -> Any:
        steps = compile_steps(resolve(recipe_file.load("simcse", changes)))
        return next(step for step in steps if step.name == "train")

    assert "document_pairs" not in train_step("train.choose=null").inputs
    assert train_step("train.choose={}").inputs["document_pairs"] == ("ingest",)
    sts(tmp_path / "STS" / "STSBenchmark", "dev", ["a", "b"])
    suite = f"evaluate.suite={tmp_path}"
    assert train_step(suite, "train.choose=null").config.suite is None
    step = train_step(suite, "train.choose={by: STS-B}")
    assert "document_pairs" not in step.inputs
    assert list(step.stage.externals(step.config)) == ["STS/STSBenchmark/sts-dev.csv"]
    assert "suite" in step.stage.locations


def test_the_step_of_an_evaluator_that_is_best_on_dev(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    """Without the head that it is trained with, as it is used."""
    sts(tmp_path / "suite" / "STS" / "STSBenchmark", "dev", tiny_texts[100:160])
    config = FitEvaluatorConfig(
        batch_size=8,
        learning_rate=1e-2,
        epochs=3,
        warmup_steps=2,
        lr_schedule="constant",
        log_steps=1,
        choose=CheckpointConfig(every=1, by="STS-B"),
        suite=tmp_path / "suite",
    )
    path, log, _ = call(fit_evaluator.STAGE, config, inputs, tiny_backbone, tmp_path / "work")
    assert [row["learning_rate"] for row in log] == pytest.approx([0, 5e-3, *[1e-2] * 10])
    values = [row["dev_value"] for row in log]
    (chosen,) = (row for row in log if row["chosen"])
    assert chosen["dev_value"] == max(values) > min(values)
    task = read_task(tmp_path / "suite", "STS-B", "dev")
    assert task is not None
    (part,) = task.parts
    model = load_encoder(path)
    first, second = (encode(model, texts) for texts in (part.first, part.second))
    cosines = (first * second).sum(axis=1)
    assert 100 * metrics.spearman(cosines, part.scores) == pytest.approx(max(values), abs=0.05)


def test_an_evaluator_reads_what_its_step_is_chosen_by(tmp_path: Path) -> None:
    sts(tmp_path / "STS" / "STSBenchmark", "dev", ["a", "b"])
    suite = (f"evaluate.suite={tmp_path}", "guard.action=report")
    chosen = "evaluator.fit.choose={by: STS-B, every: 7}"
    steps = compile_steps(resolve(recipe_file.load("gcse_rules", [*suite, chosen])))
    by_name: dict[str, Any] = {step.name: step for step in steps}
    step = by_name["fit_evaluator"]
    assert list(step.stage.externals(step.config)) == ["STS/STSBenchmark/sts-dev.csv"]
    # The guard keeps what it is chosen on out of the sentences that it is fitted on.
    assert by_name["guard.sentences"].config.model_dump()["chosen_on"] == ("STS-B",)
    changed = ["evaluator.fit.choose={by: retrieval}"]
    steps = compile_steps(resolve(recipe_file.load("gcse_rules", changed)))
    by_name = {step.name: step for step in steps}
    assert by_name["fit_evaluator"].inputs["document_pairs"] == ("ingest",)
    assert by_name["fit_evaluator"].config.model_dump()["suite"] is None


def test_the_choice_reads_the_pairs_that_the_evaluation_reports_on(
    inputs: dict[str, Rows], tmp_path: Path, tiny_texts: list[str]
) -> None:
    table = pairs(tiny_texts[:200], "dev")
    rows = with_pairs(inputs, tmp_path, table)["document_pairs"]
    (reported,) = draw_pairs(rows, ("dev",), 7, seed=3)
    chosen_on = pairs_of_split(rows, "dev", 7, seed=3)
    assert chosen_on["pair_id"].to_pylist() == reported.ids.tolist()
    assert chosen_on["query"].to_pylist() == reported.queries
    steps = compile_steps(
        resolve(recipe_file.load("quickstart", ["train.choose={}", "evaluate.max_pairs=7"]))
    )
    found = {step.name: step.config.model_dump()["max_pairs"] for step in steps[-2:]}
    assert found == {"train": 7, "evaluate.encoder": 7}


def table(path: Path, *rows: tuple[Any, ...]) -> str:
    path.write_text("\n".join("\t".join(map(str, row)) for row in rows))
    return str(path)


def log_of(
    inputs: dict[str, Rows], backbone: Path, scratch: Path, by: str = "ours", **config: Any
) -> list[dict[str, Any]]:
    """The log of a training that chooses so."""
    given = TrainConfig(phase=PHASE, choose=CheckpointConfig(every=3, by=by), **config)
    log: list[dict[str, Any]] = call(STAGE, given, inputs, backbone, scratch)[1]
    return log


def test_the_step_that_is_best_on_pairs_queries_or_questions_of_ones_own(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    graded = [(*tiny_texts[i : i + 2], i % 7, "dev") for i in range(100, 140, 2)]
    file = table(tmp_path / "ours.tsv", ("one", "two", "gold", "split"), *graded)
    documents = {str(place): text for place, text in enumerate(tiny_texts[:60])}
    queries = {f"q{place}": tiny_texts[place + 60] for place in range(30)}
    judged = [(f"q{place}", str(place), 1) for place in range(30)]
    folder = write_beir(tmp_path / "ours", documents, queries, {"valid": judged})
    source = RetrievalSource(source=str(folder), dev="valid")
    passages = {
        **{"passage_id": list(range(60)), "doc_id": list(range(60)), "corpus": ["c"] * 60},
        **{"source": ["a.md"] * 60, "context": [""] * 60, "text": tiny_texts[:60]},
    }
    judgements = {
        **{"task": ["ours"] * 30, "query_id": list(range(30)), "query": tiny_texts[60:90]},
        **{"split": ["dev"] * 30, "unit": ["passage"] * 30, "passage_id": list(range(30))},
    }
    asked = stored(tmp_path, passages=pa.table(passages), judgements=pa.table(judgements))
    for name, metric, more, config in (
        ("pairs", "sts_sets ours dev all spearman", {}, {"sts_sets": {"ours": file}}),
        ("sets", "retrieval_sets ours dev all ndcg@10", {}, {"retrieval_sets": {"ours": source}}),
        ("asked", "retrieval_sets ours dev all ndcg@10", asked, {}),
    ):
        log = log_of({**inputs, **more}, tiny_backbone, tmp_path / name, **config)
        assert {row["dev_metric"] for row in log} == {metric}
        assert len({row["dev_value"] for row in log}) > 1
    config = TrainConfig(
        phase=PHASE, choose=CheckpointConfig(by="ours"), retrieval_sets={"ours": source}
    )
    names = ("corpus.jsonl", "queries.jsonl", "qrels/valid.tsv")
    assert list(STAGE.externals(config)) == [f"retrieval_sets/ours/{name}" for name in names]


def test_the_step_with_most_dev_cases_in_order(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    columns = ("anchor", "rewording", "changed", "kind", "split")
    dev = [(*tiny_texts[i : i + 3], "any", "dev") for i in range(100, 160, 3)]
    test = [(*tiny_texts[i : i + 3], "any", "test") for i in range(60, 90, 3)]

    def log_over(name: str, *rows: tuple[Any, ...]) -> list[dict[str, Any]]:
        file = table(tmp_path / f"{name}.tsv", columns, *rows)
        given = {"by": "fact_order", "fact_order": {"ours": file}}
        return log_of(inputs, tiny_backbone, tmp_path / name, **given)

    log, with_test = log_over("one", *dev), log_over("two", *test, *dev)
    for row, same in zip(log, with_test, strict=True):
        assert (row["step"], row["dev_value"]) == (same["step"], same["dev_value"])
    assert {row["dev_metric"] for row in log} == {"fact_order ours dev all accuracy"}
    # Twenty cases: shares in steps of 5 %, or of 2.5 % with ties.
    assert all(0 <= row["dev_value"] <= 100 and row["dev_value"] % 2.5 == 0 for row in log)
    with fails("no_rows"):
        log_over("none", *test)
