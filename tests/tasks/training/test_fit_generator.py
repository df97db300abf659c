"""Stage `fit_generator`: what it leaves, and its errors."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fitted_generator import WORDS, pairs
from pydantic import ValidationError
from tiny_generators import SEPARATOR, tiny_causal, tiny_seq2seq

from tercet.models.generators import generator, layout
from tercet.storage.rows import rows_of
from tercet.tasks.corpus.labelled import LABELLED
from tercet.tasks.stage import BadInput, Resources, Work
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
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=LABELLED), folder / "labelled.parquet")
    given = {"max_length": 32, "batch_size": 8, "max_steps": 4, "choose_every": 2, "log_steps": 2}
    config = FitGeneratorConfig(
        init="x",
        name="writer",
        form=form,  # type: ignore[arg-type]
        pairs=PairsConfig(labelled=("pairs",), validation=0.2),
        **{**given, **settings},
    )
    tables: dict[str, pa.Table] = {}
    path = fit_generator.STAGE.run(
        Work(
            config=config,
            seed=3,
            inputs={"labelled": rows_of({"labelled": [folder / "labelled.parquet"]})},
            models={"init": init} if judge is None else {"init": init, "judge": judge},
            spec={},
            resources=Resources(),
            scratch=folder,
            emit=tables.__setitem__,
        )
    )
    return path, tables["training_log"].cast(fit_generator.STAGE.tables["training_log"]).to_pylist()


@pytest.mark.parametrize("form", ["vaegpt", "causal", "t5"])
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
    assert (
        type(opened.model).__name__
        == {
            "vaegpt": "VaeGpt",
            "causal": "GPT2LMHeadModel",
            "t5": "T5ForConditionalGeneration",
        }[form]
    )


def test_the_same_seed_gives_the_same_generator(inits: dict[str, Path], tmp_path: Path) -> None:
    weights = [
        fitted(tmp_path / name, inits["vaegpt"], "vaegpt")[0] / "model.safetensors"
        for name in ("a", "b")
    ]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_another_judge_makes_another_generator(inits: dict[str, Path], tmp_path: Path) -> None:
    other = tiny_causal(tmp_path / "other", WORDS, seed=1, sharpness=0.05)
    settings: dict[str, Any] = {"vaegpt": {"cross_entropy": 0.0}}
    init = inits["vaegpt"]
    weights = [
        fitted(tmp_path / name, init, "vaegpt", judge, **settings)[0] / "model.safetensors"
        for name, judge in (("a", None), ("b", init), ("c", other))
    ]
    own, same, another = (path.read_bytes() for path in weights)
    assert own == same != another


def test_the_optimizer_is_the_recipes(inits: dict[str, Path], tmp_path: Path) -> None:
    weights = [
        fitted(tmp_path / name, inits["t5"], "t5", optimizer=name)[0] / "model.safetensors"
        for name in ("adamw", "adafactor")
    ]
    assert weights[0].read_bytes() != weights[1].read_bytes()


def test_what_separates_is_the_tokenizers_own(inits: dict[str, Path], tmp_path: Path) -> None:
    # This tokenizer names no separator: then it is the end of text.
    path, _ = fitted(tmp_path / "a", inits["causal"], "causal")
    assert layout.read(path).separator == "<end>"
    path, _ = fitted(tmp_path / "b", inits["causal"], "causal", separator=SEPARATOR)
    assert layout.read(path).separator == SEPARATOR
    path, _ = fitted(tmp_path / "c", inits["t5"], "t5", before="in other words: ")
    assert (layout.read(path).separator, layout.read(path).before) == (None, "in other words: ")


@pytest.mark.parametrize(
    ("form", "init", "settings", "message"),
    [
        ("vaegpt", "t5", {}, "VAEGPT starts from a GPT-2 checkpoint"),
        ("causal", "t5", {}, "A causal language model is needed"),
        ("t5", "causal", {}, "The form t5 starts from a T5"),
        ("causal", "causal", {"separator": "<none>"}, "does not know the separator '<none>'"),
        ("causal", "causal", {"max_length": 256}, "the model has 128 positions: lower it"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(
    form: str,
    init: str,
    settings: dict[str, Any],
    message: str,
    inits: dict[str, Path],
    tmp_path: Path,
) -> None:
    with pytest.raises(BadInput, match=message) as found:
        fitted(tmp_path / "work", inits[init], form, **settings)
    assert str(found.value).startswith("fit_generator: writer: ")


def test_a_tokenizer_of_another_model_is_refused(inits: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    from transformers import AutoTokenizer

    other = shutil.copytree(inits["causal"], tmp_path / "other")
    tokenizer = AutoTokenizer.from_pretrained(other)
    tokenizer.add_tokens([f"new{number}" for number in range(50)])
    tokenizer.save_pretrained(other)
    with pytest.raises(BadInput, match="so they do not belong together"):
        fitted(tmp_path / "work", other, "causal")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (other / name).unlink()
    with pytest.raises(BadInput, match="No language model can be taken from"):
        fitted(tmp_path / "work2", other, "causal")


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(ValidationError, match="t5 has no separator"):
        FitGeneratorConfig(form="t5", init="x", separator="<sep>")
    with pytest.raises(ValidationError, match="the key vaegpt is not for the form causal"):
        FitGeneratorConfig.model_validate(
            {"form": "causal", "init": "x", "vaegpt": {"noise_weight": 1.0}}
        )
    with pytest.raises(ValidationError, match="a model of form causal has no judge"):
        FitGeneratorConfig(form="causal", init="x", judge="y")
    with pytest.raises(ValidationError, match="target_weight: 0 asks no judge"):
        FitGeneratorConfig.model_validate(
            {"form": "vaegpt", "init": "x", "judge": "y", "vaegpt": {"target_weight": 0}}
        )
    with pytest.raises(ValidationError, match="give either corpora or role"):
        FitGeneratorConfig.model_validate(
            {"form": "causal", "init": "x", "pairs": {"corpora": ["a"], "role": "general"}}
        )
