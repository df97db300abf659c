"""Stage `fit_generator`: what it leaves, and its errors."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails
from fitted_generator import WORDS, pairs
from stages import ran, stored
from tiny_generators import tiny_causal, tiny_seq2seq

from tercet.models.generators import generator, layout
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.training import fit_generator
from tercet.tasks.training.fit_generator import FitGeneratorConfig
from tercet.tasks.training.generator_pairs import PairsConfig


@pytest.fixture(scope="module")
def inits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("inits")
    causal = tiny_causal(folder / "causal", WORDS, sharpness=0.05)
    t5 = tiny_seq2seq(folder / "t5", WORDS)
    for path in (causal, t5):
        # As pretraining leaves them: what is asked how is not known yet.
        (path / layout.FILE).unlink()
    return {"causal": causal, "vaegpt": causal, "t5": t5}


def fitted(folder: Path, init: Path, form: str, judge: Path | None = None, **settings: Any) -> Any:
    """The generator's directory and the log's rows."""
    blank = dict.fromkeys(LABELLED.names)
    rows = [
        {**blank, "row_id": row["row_id"], "corpus": "pairs", "anchor": row["source"],
         "positive": row["target"]}
        for row in pairs(60).to_pylist()
    ]  # fmt: skip
    given = {"max_length": 32, "batch_size": 8, "max_steps": 4, "choose_every": 2, "log_steps": 2}
    config = FitGeneratorConfig(
        init="x",
        name="writer",
        form=form,  # type: ignore[arg-type]
        pairs=PairsConfig(labelled=("pairs",), validation=0.2),
        **{**given, **settings},
    )
    inputs = stored(folder, labelled=pa.Table.from_pylist(rows, schema=LABELLED))
    models = {"init": init} if judge is None else {"init": init, "judge": judge}
    path, tables = ran(fit_generator.STAGE, config, inputs, folder, models)
    return path, tables["training_log"].to_pylist()


FORMS = {"vaegpt": "VaeGpt", "causal": "GPT2LMHeadModel", "t5": "T5ForConditionalGeneration"}


@pytest.mark.parametrize("form", FORMS)
def test_it_leaves_a_generator_that_answers(
    form: str, inits: dict[str, Path], tmp_path: Path
) -> None:
    path, log = fitted(tmp_path / "work", inits[form], form)
    files = {file.name for file in path.iterdir()}
    assert {"config.json", "generator.json", "model.safetensors", "tokenizer.json"} <= files
    assert not any(name.endswith((".bin", ".pt", ".pth", ".py")) for name in files)
    laid = layout.read(path)
    assert (laid.form, laid.max_length) == (form, 32)
    assert {row["phase"] for row in log} == {"writer"}
    assert [row["step"] for row in log] == [2, 4]
    assert {row["dev_metric"] for row in log} == {"rouge validation average"}
    terms = dict(log[0]["terms"])
    assert set(terms) == ({"cross_entropy", "kl", "target"} if form == "vaegpt" else set(terms))
    assert sum(row["chosen"] for row in log) == 1
    opened = generator.load(path, "fp32", "cpu")
    assert type(opened.model).__name__ == FORMS[form]
    # This causal tokenizer names no separator: then it is the end of text.
    assert laid.separator == (None if form == "t5" else "<end>")


def test_only_the_seed_the_judge_and_the_optimizer_make_another_generator(
    inits: dict[str, Path], tmp_path: Path
) -> None:
    other = tiny_causal(tmp_path / "other", WORDS, seed=1, sharpness=0.05)
    init = inits["vaegpt"]

    def weights(name: str, judge: Path | None = None, **settings: Any) -> bytes:
        settings = {"vaegpt": {"cross_entropy": 0.0}, **settings}
        path, _ = fitted(tmp_path / name, init, "vaegpt", judge, **settings)
        return bytes((path / "model.safetensors").read_bytes())

    own = weights("a")
    assert weights("b") == weights("c", init) == own
    assert own != weights("d", other)
    assert own != weights("e", optimizer="adafactor")


@pytest.mark.parametrize(
    ("form", "init", "settings", "word"),
    [
        ("vaegpt", "t5", {}, "GPT-2"),
        ("causal", "t5", {}, "causal"),
        ("t5", "causal", {}, "T5"),
        ("causal", "causal", {"max_length": 256}, "128"),
    ],
)
def test_what_does_not_fit_is_refused(
    form: str,
    init: str,
    settings: dict[str, Any],
    word: str,
    inits: dict[str, Path],
    tmp_path: Path,
) -> None:
    with fails("unfit_model", "fit_generator", word):
        fitted(tmp_path / "work", inits[init], form, **settings)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"form": "causal", "vaegpt": {"noise_weight": 1.0}}, "vaegpt"),
        ({"form": "causal", "judge": "y"}, "judge"),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, Any], key: str) -> None:
    with fails("no_effect", key):
        FitGeneratorConfig.model_validate({"init": "x", **settings})
