"""What losses read beside texts: definitions, token states, a teacher and dropout."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
import transformers
from counted import frequencies
from entry_rows import owned, space
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cosine_similarity
from training_run import NUMBERS, drawn, part, same_weights, table, train, without_rate

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.settings import TokenCnnForm
from tercet.models.losses.definition import projection_for, read_projection
from tercet.models.losses.registry import loss_named
from tercet.models.training import train_encoder as module
from tercet.models.training.loop import Setting
from tercet.models.training.phase import PartRows, Teacher, Trained
from tercet.models.training.train_encoder import save_encoder, train_encoder


def test_definitions_beside_triplets_learn_their_entries(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = owned(table(tiny_texts), 20)
    definitions = part(rows, "definition", share=0.5, slots={"entry_matrix": space(tmp_path, 20)})
    weights, trained = train(
        tiny_backbone, [definitions, part(rows, "gaussian_decay", share=0.5)], tmp_path / "work"
    )
    first, last = trained.log[0]["terms"], trained.log[-1]["terms"]
    assert last["definition.loss"] < first["definition.loss"]
    assert 0 <= first["definition.recall_1"] <= 1
    # A third of the rows has two entries.
    assert 0 < last["definition.floor"] < 0.693
    # The projection goes beside the encoder, the entries do not.
    path = save_encoder(load_encoder(tiny_backbone), tmp_path / "encoder", trained.kept)
    file = path / "losses" / "definition.projection.safetensors"
    assert set(load_file(file)) == {"dense.weight", "dense.bias", "gelu", "scale"}
    assert read_projection(file).dense.weight.shape == (32, 32)
    assert not any("matrix" in name for name in weights)


def test_the_projection_is_blended_as_the_encoder_that_it_fits(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = owned(table(tiny_texts), 20)
    parts = [part(rows, "definition", slots={"entry_matrix": space(tmp_path, 20)})]

    def projection(name: str, **changes: Any) -> Tensor:
        numbers = NUMBERS.model_copy(update={"epochs": 1.0, "max_steps": 4, **changes})
        (kept,) = train(tiny_backbone, parts, tmp_path / name, numbers)[1].kept.values()
        return kept.dense.weight.detach()

    start = projection_for(load_encoder(tiny_backbone, "mean"), 32, "auto").dense.weight.detach()
    alone, blend = projection("alone"), projection("blend", weight_interpolation=0.25)
    assert not torch.equal(alone, start)
    assert torch.allclose(blend, 0.75 * alone + 0.25 * start, atol=1e-6)


FORM = TokenCnnForm("token_cnn", channels=6, filters=2)


def test_stopped_and_resumed_it_ends_with_the_same_weights(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    torch.set_num_threads(1)
    rows = table(tiny_texts)
    numbers = NUMBERS.model_copy(update={"max_steps": 12})

    def run(folder: str, stop: int = 99) -> tuple[dict[str, torch.Tensor], Trained]:
        model = load_encoder(tiny_backbone, FORM, cnn_seed=0)
        counts = frequencies(tmp_path / "counts", model.tokenizer, tiny_texts)
        decoded = part(rows, "token_reconstruction", slots={"frequencies": counts}, weight=0.5)

        def progress(done: int, total: int | None, unit: str) -> None:
            seen.append(done)
            if done == stop:
                raise KeyboardInterrupt

        setting = Setting(
            tmp_path / folder, seed=11, log_steps=2, checkpoint_steps=4, progress=progress
        )
        trained = train_encoder(model, numbers, [decoded], setting)
        return model.state_dict(), trained

    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        run("stopped", stop=7)
    seen.clear()
    weights, resumed = run("stopped")
    assert seen[0] == 5
    whole, undisturbed = run("whole")
    assert any("text_cnns" in name for name in whole)
    assert same_weights(weights, whole)
    assert without_rate(resumed.log) == without_rate(undisturbed.log)
    first, last = (undisturbed.log[place]["terms"]["reconstruction"] for place in (0, -1))
    assert last < first


def taught(rows: pa.Table, teacher: Teacher) -> PartRows:
    return part(rows, sigma_cosine=0.05, teacher=teacher)


def batches(backbone: Path, given: PartRows, count: int = 14) -> tuple[list[Any], list[list[str]]]:
    """The labels of so many batches, and the columns of text that the student saw for them."""
    model = load_encoder(backbone, "mean")
    seen: list[list[str]] = []
    preprocess = model.preprocess

    def read(texts: list[str], **rest: Any) -> Any:
        seen.append(texts)
        return preprocess(texts, **rest)

    model.preprocess = read  # type: ignore[method-assign]
    feed = module._Feed(model, NUMBERS, [given], [loss_named(given.loss)], 11)
    return [feed[step].inputs[0][1] for step in range(count)], seen


def cosines(backbone: Path, anchors: list[str], negatives: list[str], **form: Any) -> torch.Tensor:
    model = load_encoder(backbone, max_length=NUMBERS.max_length, **form)
    return cosine_similarity(*(torch.from_numpy(encode(model, t)) for t in (anchors, negatives)))


@pytest.mark.parametrize("pooling", [None, "cls"])
def test_the_labels_are_its_cosines_of_the_very_texts(
    tiny_backbone: Path, tiny_texts: list[str], pooling: Any
) -> None:
    """In the second epoch too, where other words are repeated, and in the form asked for."""
    rows = table(tiny_texts)
    originals = set(rows["anchor"].to_pylist())
    labels, seen = batches(tiny_backbone, taught(rows, Teacher(tiny_backbone, pooling)))
    changed = 0
    for step, found in enumerate(labels):
        anchors, _, negatives = seen[3 * step : 3 * step + 3]
        expected = cosines(tiny_backbone, anchors, negatives, pooling=pooling)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        changed += sum(anchor not in originals for anchor in anchors)
    assert changed > 50


def test_a_training_that_stopped_goes_on_as_if_it_had_not(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    given = [taught(table(tiny_texts), Teacher(tiny_backbone))]

    def stops(done: int, total: int | None, unit: str) -> None:
        if done == 15:
            raise KeyboardInterrupt

    weights, undisturbed = train(tiny_backbone, given, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tiny_backbone, given, tmp_path / "cut", checkpoint_steps=2, progress=stops)
    again, resumed = train(tiny_backbone, given, tmp_path / "cut")
    assert same_weights(weights, again)
    assert without_rate(resumed.log) == without_rate(undisturbed.log)
    assert undisturbed.log[-1]["terms"]["teacher_negative"] != pytest.approx(0.8)


PLAIN = NUMBERS.model_copy(update={"word_repetition": None, "epochs": 1.0, "max_steps": 1})
SMALL = {
    **{"vocab_size": 20, "hidden_size": 8, "intermediate_size": 8, "pad_token_id": 0},
    **{"num_hidden_layers": 1, "num_attention_heads": 2},
}
OTHER: dict[str, dict[str, int]] = {
    "distilbert": {"dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8},
    "t5": {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2},
    "bart": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1},
    "gpt2": {"n_embd": 8, "n_layer": 1, "n_head": 2},
}


@pytest.mark.parametrize(
    ("kind", "active"),
    [
        ("bert", True),
        ("roberta", True),
        ("xlm-roberta", True),
        ("mpnet", True),
        ("electra", True),
        ("deberta-v2", True),
        ("distilbert", True),
        ("t5", True),
        ("gpt2", True),
        # Without a module of torch's: its layers have a share and apply it themselves.
        ("bart", True),
        ("modernbert", False),
        ("llama", False),
    ],
)
def test_which_models_drop_out(kind: str, active: bool) -> None:
    given: dict[str, Any] = {"vocab_size": 20, **OTHER.get(kind, SMALL)}
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1)
    config = transformers.AutoConfig.for_model(kind, **given, **ends)
    assert module.has_dropout(transformers.AutoModel.from_config(config)) == active


def test_a_text_is_no_positive_of_itself_without_dropout(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    own = rows.set_column(2, "positive", rows["anchor"])

    def trained(*parts: Any, **changes: Any) -> None:
        model = load_encoder(tiny_backbone)
        for layer in model.modules():
            if "Dropout" in type(layer).__name__:
                layer.p = 0.0
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        numbers = PLAIN.model_copy(update=changes)
        train_encoder(model, numbers, parts, Setting(folder, seed=1))

    with pytest.raises(ValueError, match=r"first: .*positive"):
        trained(part(own, "info_nce"))
    with pytest.raises(ValueError, match="positive"):
        trained(part(rows, "info_nce", name="a"), part(own, "info_nce", name="b"))
    # What tells the two texts apart is there.
    trained(part(own, "info_nce"), word_repetition="many")
    trained(part(rows, "info_nce"))
    trained(*drawn(rows))
    train(tiny_backbone, [part(own, "info_nce")], tmp_path / "with", PLAIN)
