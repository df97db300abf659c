"""Stage `fit_generator`, form `gense`: what it leaves, and its errors."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from fitted_gense import init, pairs
from pydantic import ValidationError
from stages import ran, stored
from tiny_generators import tiny_causal

from tercet.models.generators import generator, layout
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import Sampling
from tercet.models.t5 import judge, wording
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training import fit_gense
from tercet.tasks.training.fit_gense import FitGenseConfig, GensePairs
from tercet.tasks.training.judged_pairs import read_judged


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return init(tmp_path_factory.mktemp("inits") / "t5")


def labelled(rows: list[dict[str, Any]]) -> pa.Table:
    blank = dict.fromkeys(LABELLED.names)
    numbered = [{**blank, "row_id": i, "corpus": "nli", **row} for i, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=LABELLED)


def triplets() -> pa.Table:
    found: dict[str, dict[str, Any]] = {}
    for row in pairs(48).to_pylist():
        one = found.setdefault(row["anchor"] + row["text"][-1], {"anchor": row["anchor"]})
        one["positive" if row["true"] else "negative"] = row["text"]
    return labelled(list(found.values()))


def fitted(
    folder: Path, start: Path, rows: pa.Table | None = None, **settings: Any
) -> tuple[Path, dict[str, pa.Table]]:
    """The model's directory and the tables."""
    numbers = {"max_length": 32, "batch_size": 16, "max_steps": 4, "choose_every": 2}
    config = FitGenseConfig(
        init="x",
        name="writer",
        form="gense",
        pairs=GensePairs(corpora=("nli",), validation=0.25, test=0.25),
        **{**numbers, "log_steps": 2, **settings},  # type: ignore[arg-type]
    )
    inputs = stored(folder, labelled=triplets() if rows is None else rows)
    return ran(fit_gense.STAGE, config, inputs, folder, {"init": start})


def test_it_leaves_a_generator_and_a_judge(t5: Path, tmp_path: Path) -> None:
    path, tables = fitted(tmp_path / "work", t5)
    files = {file.name for file in path.iterdir()}
    wanted = {"config.json", "generator.json", "judge.json", "model.safetensors", "tokenizer.json"}
    assert wanted <= files
    assert not any(name.endswith((".bin", ".pt", ".pth", ".py", ".pkl")) for name in files)
    # It is asked as it was fitted: in these words around the sentence.
    opened = generator.load(path, "fp32", "cpu")
    laid = layout.read(path)
    assert (laid.form, laid.max_length, laid.follows_prompts) == ("t5", 32, True)
    prompt = "Say what follows from: the cat is red ."
    asked = generator.prompts(opened, [Request(0, prompt, Sampling(), 0, None, "the cat is red .")])
    assert opened.tokenizer.decode(asked[0]) == "Say what follows from : the cat is red . </s>"
    # It judges by its own calibration, which has the sense of the softmax.
    own = judge.load(path, "fp32", "cpu")
    assert dict(own.question.templates) == wording.builtin_templates()
    assert (own.question.slope, own.question.shift) != (1.0, 0.0)

    log = tables["training_log"].to_pylist()
    assert {row["phase"] for row in log} == {"writer"}
    assert [row["step"] for row in log] == [2, 4]
    assert {name for name, _ in log[0]["terms"]} == {"written", "judged"}
    assert sum(row["chosen"] for row in log) == 1
    metrics = tables["discriminator_metrics"].to_pylist()
    own_metrics = {row["metric"] for row in metrics if row["arm"] == "discriminator"}
    assert {"auc", "accuracy", "perplexity"} <= own_metrics
    assert {"hypothesis", "pair_words"} <= {row["arm"] for row in metrics}
    assert {row["discriminator"] for row in metrics} == {"writer"}
    reliability = tables["reliability"].to_pylist()
    held_out = next(row["pairs"] for row in metrics if row["metric"] == "auc")
    assert sum(row["pairs"] for row in reliability) == held_out


def test_pairs_held_out_for_the_figures_move_no_weight(t5: Path, tmp_path: Path) -> None:
    rows = triplets()
    inputs = stored(tmp_path, labelled=rows)
    work = Work(None, 3, inputs, {}, {}, Resources(), tmp_path, lambda *_: None)
    own = GensePairs(corpora=("nli",), validation=0.25, test=0.25)
    parts = read_judged(work, own, "fit_generator: writer")

    def weights(name: str, **settings: Any) -> bytes:
        """Where pairs of this part are false if they were true."""
        anchors = set(getattr(parts, name)["anchor"].to_pylist()) if name else set()
        changed = [
            {**row, "positive": row["negative"], "negative": row["positive"]}
            if row["anchor"] in anchors
            else row
            for row in rows.to_pylist()
        ]
        path, _ = fitted(tmp_path / f"of{name}{len(settings)}", t5, labelled(changed), **settings)
        return (path / "model.safetensors").read_bytes()

    whole = weights("")
    # The same seed gives the same model.
    assert weights("test") == whole != weights("fit")
    assert weights("", learning_rate=2e-3) != whole


def test_pairs_or_a_checkpoint_that_cannot_be_fitted_are_refused(t5: Path, tmp_path: Path) -> None:
    rows = triplets()
    without = rows.set_column(5, "negative", pa.nulls(rows.num_rows, pa.string()))
    with fails("no_rows", "false"):
        fitted(tmp_path / "pairs", t5, without)
    with fails("unfit_model", "fit_generator.writer"):
        fitted(tmp_path / "form", tiny_causal(tmp_path / "causal", ["true", "false"]))
    with pytest.raises(ValidationError, match="separator"):
        FitGenseConfig.model_validate({"form": "gense", "init": "x", "separator": "<sep>"})


def test_it_learns_in_the_words_of_the_recipe(t5: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.jinja"
    own.write_text("Known : {{ sentence }} what follows ?\n")
    more = {"prompts": {"entailment": str(own)}, "question": {"before": "Say ", "after": " or ?"}}
    path, _ = fitted(tmp_path / "work", t5, **more)
    found = wording.read(path)
    assert found.templates == {
        "entailment": "Known : {{ sentence }} what follows ?",
        "contradiction": wording.builtin_templates()["contradiction"],
    }
    assert (found.before, found.between, found.after) == ("Say ", " Claimed: ", " or ?")
    # The file's content decides, not where it lies.
    config = FitGenseConfig(init="x", name="writer", form="gense", prompts={"entailment": str(own)})  # type: ignore[arg-type]
    assert fit_gense.STAGE.externals(config) == {"prompts.entailment": own}
    assert "prompts.entailment" in fit_gense.STAGE.locations
    own.write_text("{{ sentence }} {{ sentence }}")
    with fails("unfit_model", "writer.prompts.entailment"):
        fit_gense.STAGE.externals(config)
