"""Dropout pairs need dropout."""

from pathlib import Path
from typing import Any

import pytest
import transformers
from training_run import NUMBERS, drawn, part, table, train

from tercet.models.encoders.encoder import load_encoder
from tercet.models.training import train_encoder as training
from tercet.models.training.loop import Setting
from tercet.models.training.train_encoder import train_encoder

PLAIN = NUMBERS.model_copy(update={"word_repetition": False, "epochs": 1.0, "max_steps": 1})
SMALL = {
    **{"vocab_size": 20, "hidden_size": 8, "intermediate_size": 8, "pad_token_id": 0},
    **{"num_hidden_layers": 1, "num_attention_heads": 2},
}
T5 = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}
BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1}
OTHER: dict[str, dict[str, int]] = {
    "distilbert": {"vocab_size": 20, "dim": 8, "n_layers": 1, "n_heads": 2, "hidden_dim": 8},
    "t5": {"vocab_size": 20, **T5},
    "bart": {"vocab_size": 20, **BART},
    "gpt2": {"vocab_size": 20, "n_embd": 8, "n_layer": 1, "n_head": 2},
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
    given: dict[str, Any] = OTHER.get(kind, SMALL)
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"), 1)
    config = transformers.AutoConfig.for_model(kind, **given, **ends)
    assert training.has_dropout(transformers.AutoModel.from_config(config)) == active


def test_a_text_is_no_positive_of_itself_without_dropout(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    rows = table(tiny_texts)
    own = rows.set_column(2, "positive", rows["anchor"])

    def trained(*parts: Any, **changes: Any) -> None:
        model = load_encoder(tiny_backbone)
        for module in model.modules():
            if "Dropout" in type(module).__name__:
                module.p = 0.0
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        numbers = PLAIN.model_copy(update=changes)
        train_encoder(model, numbers, parts, Setting(folder, seed=1))

    with pytest.raises(ValueError, match=r"first: .*positive"):
        trained(part(own, "info_nce"))
    with pytest.raises(ValueError, match="positive"):
        trained(part(rows, "info_nce", name="a"), part(own, "info_nce", name="b"))
    # What tells the two texts apart is there.
    trained(part(own, "info_nce"), word_repetition=True)
    trained(part(rows, "info_nce"))
    trained(*drawn(rows))
    train(tiny_backbone, [part(own, "info_nce")], tmp_path / "with", PLAIN)
