"""The choice of a checkpoint: dev alone decides, and nothing of test can."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from beir_folder import write_beir
from failures import fails
from train_stage import call, inputs

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.models.encoders.encoder import load_encoder
from tercet.models.encoders.settings import Prompts
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.corpus.ingest import DOCUMENT_PAIRS
from tercet.tasks.evaluation.document_pairs import pairs_of_split
from tercet.tasks.evaluation.evaluation_rows import draw_pairs
from tercet.tasks.evaluation.suites.own import RetrievalSource, StsSet
from tercet.tasks.stage import BadInput, Resources, Work
from tercet.tasks.training import train
from tercet.tasks.training.choosers import chooser_of
from tercet.tasks.training.phases import PhaseConfig
from tercet.tasks.training.train_settings import ChooseConfig, TrainConfig

__all__ = ["inputs"]

PHASE = PhaseConfig.model_validate({"batch_size": 8, "epochs": 2, "learning_rate": 1e-3})
STAGE = train.STAGE


def pairs(path: Path, texts: list[str], split: str, start: int = 0) -> pa.Table:
    rows = [
        {"pair_id": start + i, "doc_id": i, "query": q, "answer": a, "split": split}
        for i, (q, a) in enumerate(zip(texts[::2], texts[1::2], strict=True))
    ]
    return pa.Table.from_pylist(rows, DOCUMENT_PAIRS)


def with_pairs(given: dict[str, Rows], path: Path, *tables: pa.Table) -> dict[str, Rows]:
    pq.write_table(pa.concat_tables(tables), path)
    return {**given, "document_pairs": rows_of({"document_pairs": [path]})}


def weights(path: Path) -> bytes:
    return (path / "model.safetensors").read_bytes()


def test_no_change_of_a_test_pair_moves_a_weight(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    config = TrainConfig(phase=PHASE, choose=ChooseConfig(every=2))
    dev = pairs(tmp_path, tiny_texts[100:140], "dev")
    tests = {
        "some": pairs(tmp_path, tiny_texts[140:180], "test", 100),
        "others": pairs(tmp_path, tiny_texts[60:80][::-1], "test", 300),
        "dev's own, swapped": pairs(tmp_path, tiny_texts[100:140][::-1], "test", 500),
    }
    found, logs = [], []
    for name, test in tests.items():
        given = with_pairs(inputs, tmp_path / f"{name}.parquet", test, dev)
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
    given = with_pairs(inputs, tmp_path / "d", pairs(tmp_path, tiny_texts[60:100], "dev"))
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
        table = pairs(tmp_path, texts, "dev")
        queries, answers = (
            {str(n): text for n, text in enumerate(table[side].to_pylist())}
            for side in ("query", "answer")
        )
        write_beir(folder, answers, queries, {"dev": [(key, key, 1) for key in queries]})
        given = with_pairs({}, tmp_path / f"{name}.parquet", table)
        sets = {"own": RetrievalSource(source=str(folder))}
        found = []
        for by in ("retrieval", "own"):
            choose = ChooseConfig(by=by)
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
            phase=PHASE, choose=ChooseConfig(every=3, by="STS-B"), suite=tmp_path / name
        )
        assert [p.name for p in train.externals(config).values()] == ["sts-dev.csv"]
        path, log, _ = call(STAGE, config, inputs, tiny_backbone, tmp_path / f"w{name}")
        found.append((weights(path), [row["dev_value"] for row in log if row["dev_metric"]]))
    assert found[0] == found[1] == found[2]
    assert len(found[0][1]) == 2
    assert log[-1]["dev_metric"] == "sts STS-B dev all spearman"


def test_without_dev_pairs_it_is_refused_before_any_step(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    config = TrainConfig(phase=PHASE, choose=ChooseConfig())
    test = pairs(tmp_path, tiny_texts[100:140], "test")
    given = with_pairs(inputs, tmp_path / "test.parquet", test)
    with fails("no_rows"):
        call(STAGE, config, given, tiny_backbone, tmp_path / "work")
    assert not (tmp_path / "work" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("recipe", "changes", "word"),
    [
        ("quickstart", ["train.choose={by: test}"], "'test'"),
        ("quickstart", ["train.choose={}", "ingest.dev=0"], "ingest.dev"),
        ("quickstart", ["train.choose={by: STS-B}"], "evaluate.suite"),
        ("simcse", ["train.choose={by: fact_order}"], "fact_order"),
        ("simcse", ["train.choose={by: mien}", "evaluate.sts_sets={mine: a.tsv}"], "'mine'"),
        ("simcse", ["corpora=[{name: a, source: a.txt}]"], "document pairs"),
    ],
)
def test_a_recipe_that_cannot_choose_on_dev_is_refused(
    recipe: str, changes: list[str], word: str
) -> None:
    with pytest.raises(BadInput, match="choose") as raised:
        recipe_file.load(recipe, changes)
    assert word in str(raised.value)


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


def test_the_choice_reads_the_pairs_that_the_evaluation_reports_on(
    inputs: dict[str, Rows], tmp_path: Path, tiny_texts: list[str]
) -> None:
    table = pairs(tmp_path, tiny_texts[:200], "dev")
    rows = with_pairs(inputs, tmp_path / "pairs.parquet", table)["document_pairs"]
    (reported,) = draw_pairs(rows, ("dev",), 7, seed=3)
    chosen_on = pairs_of_split(rows, "dev", 7, seed=3)
    assert chosen_on["pair_id"].to_pylist() == reported.ids.tolist()
    assert chosen_on["query"].to_pylist() == reported.queries
    steps = compile_steps(
        resolve(recipe_file.load("quickstart", ["train.choose={}", "evaluate.max_pairs=7"]))
    )
    found = {step.name: step.config.model_dump()["max_pairs"] for step in steps[-2:]}
    assert found == {"train": 7, "evaluate.encoder": 7}


def test_the_step_with_most_dev_cases_in_order(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    columns = ("anchor", "rewording", "changed", "kind", "split")
    rows = [(*tiny_texts[i : i + 3], "any", "dev") for i in range(100, 160, 3)]
    test = [(*tiny_texts[i : i + 3], "any", "test") for i in range(60, 90, 3)]
    logs = []
    for name, given in (("one", rows), ("two", [*test, *rows])):
        file = tmp_path / f"{name}.tsv"
        file.write_text("\n".join("\t".join(row) for row in (columns, *given)))
        config = TrainConfig(
            phase=PHASE,
            choose=ChooseConfig(every=3, by="fact_order"),
            fact_order={"ours": str(file)},
        )
        assert train.externals(config) == {"fact_order/ours": file}
        _, log, _ = call(STAGE, config, inputs, tiny_backbone, tmp_path / name)
        logs.append([(row["step"], row["dev_value"]) for row in log])
    assert logs[0] == logs[1]
    assert {row["dev_metric"] for row in log} == {"fact_order ours dev all accuracy"}
    # Twenty cases: shares in steps of 5 %, or of 2.5 % with ties.
    assert all(0 <= value <= 100 and value % 2.5 == 0 for _, value in logs[0])
    only_test = tmp_path / "test.tsv"
    only_test.write_text("\n".join("\t".join(row) for row in (columns, *test)))
    config = config.model_copy(update={"fact_order": {"ours": str(only_test)}})
    with fails("no_rows"):
        call(STAGE, config, inputs, tiny_backbone, tmp_path / "none")


def test_the_step_with_the_best_correlation_on_a_set_of_ones_own(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    rows = [(*tiny_texts[i : i + 2], i % 7, "dev") for i in range(100, 140, 2)]
    file = tmp_path / "ours.tsv"
    lines = [("one", "two", "gold", "split"), *rows]
    file.write_text("\n".join("\t".join(map(str, line)) for line in lines))
    config = TrainConfig(
        phase=PHASE,
        choose=ChooseConfig(every=3, by="ours"),
        sts_sets={"ours": StsSet(source=str(file))},
    )
    assert train.externals(config) == {"sts_sets/ours": file}
    _, log, _ = call(STAGE, config, inputs, tiny_backbone, tmp_path / "work")
    assert {row["dev_metric"] for row in log} == {"sts_sets ours dev all spearman"}
    assert len({row["dev_value"] for row in log}) > 1


def test_the_step_that_answers_ones_own_queries_best(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    documents = {str(place): text for place, text in enumerate(tiny_texts[:60])}
    queries = {f"q{place}": tiny_texts[place + 60] for place in range(30)}
    judged = [(f"q{place}", str(place), 1) for place in range(30)]
    folder = write_beir(tmp_path / "ours", documents, queries, {"valid": judged})
    source = RetrievalSource(source=str(folder), dev="valid")
    config = TrainConfig(
        phase=PHASE, choose=ChooseConfig(every=3, by="ours"), retrieval_sets={"ours": source}
    )
    assert train.externals(config) == {
        f"retrieval_sets/ours/{name}": folder / name
        for name in ("corpus.jsonl", "queries.jsonl", "qrels/valid.tsv")
    }
    _, log, _ = call(STAGE, config, inputs, tiny_backbone, tmp_path / "work")
    assert {row["dev_metric"] for row in log} == {"retrieval_sets ours dev all ndcg@10"}
    assert len({row["dev_value"] for row in log}) > 1


def test_the_step_that_answers_questions_to_the_passages_best(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    passages = {
        **{"passage_id": list(range(60)), "doc_id": list(range(60)), "corpus": ["c"] * 60},
        **{"source": ["a.md"] * 60, "context": [""] * 60, "text": tiny_texts[:60]},
    }
    judged = {
        **{"task": ["ours"] * 30, "query_id": list(range(30)), "query": tiny_texts[60:90]},
        **{"split": ["dev"] * 30, "unit": ["passage"] * 30, "passage_id": list(range(30))},
    }
    for name, columns in {"passages": passages, "judgements": judged}.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        inputs[name] = rows_of({name: [tmp_path / f"{name}.parquet"]})
    config = TrainConfig(phase=PHASE, choose=ChooseConfig(every=3, by="ours"))
    _, log, _ = call(STAGE, config, inputs, tiny_backbone, tmp_path / "work")
    assert {row["dev_metric"] for row in log} == {"retrieval_sets ours dev all ndcg@10"}
    assert len({row["dev_value"] for row in log}) > 1
