"""Texts inside a template: against literal references, and the ways in which a row could shift."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_t5 import tiny_t5
from transformers import AutoModel, AutoTokenizer, T5Model

from tercet.models.encoders.encoder import encode, load_encoder

TEMPLATE = "the {sentence} is {mask} red"
WORDS = ["red", "blue", "old", "new", "file", "array", "row", "is", "it", "the", "read", "write"]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_t5(tmp_path_factory.mktemp("t5") / "tiny", WORDS)


def _states(path: Path, rows: list[str]) -> list[tuple[list[int], torch.Tensor]]:
    """Ids and last states of each text by itself, as transformers gives them."""
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()
    found = []
    with torch.inference_mode():
        for text in rows:
            given = tokenizer(text, return_tensors="pt")
            found.append((given["input_ids"][0].tolist(), model(**given).last_hidden_state[0]))
    return found


@pytest.mark.parametrize("template", [TEMPLATE, "{mask} is the {sentence}", "{sentence}{mask}"])
def test_the_embedding_is_the_last_state_of_the_mask(
    tiny_backbone: Path, tiny_texts: list[str], template: str
) -> None:
    texts = tiny_texts[:12]
    mask = AutoTokenizer.from_pretrained(tiny_backbone).mask_token_id
    rows = [template.format(sentence=text, mask="[MASK]") for text in texts]
    expected = [states[ids.index(mask)].numpy() for ids, states in _states(tiny_backbone, rows)]
    model = load_encoder(tiny_backbone, "mask", prompt=template)
    found = encode(model, texts, batch_size=3, normalise=False)
    np.testing.assert_allclose(found, np.array(expected), atol=1e-5)
    np.testing.assert_allclose(model.encode(texts), found, atol=1e-5)


def test_a_mask_in_the_sentence_is_not_the_templates(tiny_backbone: Path) -> None:
    text = "red [MASK] file"
    (ids, states), *_ = _states(tiny_backbone, [f"the {text} is [MASK] red"])
    mask = AutoTokenizer.from_pretrained(tiny_backbone).mask_token_id
    places = [place for place, token in enumerate(ids) if token == mask]
    assert len(places) == 2
    found = encode(load_encoder(tiny_backbone, "mask", prompt=TEMPLATE), [text], normalise=False)
    np.testing.assert_allclose(found[0], states[places[1]].numpy(), atol=1e-5)


def test_truncation_shortens_the_sentence_and_never_the_template(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, "mask", prompt=TEMPLATE, max_length=9)
    # Nine less [CLS], [SEP] and four of the template.
    cut, same = encode(model, ["blue " * 60 + "old", "blue " * 3])
    np.testing.assert_allclose(cut, same, atol=1e-6)
    features = model.preprocess(["blue " * 60], max_length=7)
    tokens = model.tokenizer.convert_ids_to_tokens(features["input_ids"][0].tolist())
    assert tokens == ["[CLS]", "the", "blue", "is", "[MASK]", "red", "[SEP]"]
    assert features["state_mask"].tolist() == [[0, 0, 0, 0, 1, 0, 0]]


def test_a_template_that_leaves_no_room_is_one_sentence(tiny_backbone: Path) -> None:
    with pytest.raises(ValueError, match="max_length"):
        load_encoder(tiny_backbone, "mask", prompt=TEMPLATE, max_length=6)
    model = load_encoder(tiny_backbone, "mask", prompt=TEMPLATE, max_length=7)
    model.max_seq_length = 6
    with pytest.raises(ValueError, match="max_length"):
        encode(model, ["red"])


def test_a_row_whose_mask_is_gone_is_an_error(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone, "mask", prompt=TEMPLATE)
    features = model.preprocess(["red file", "old row of the new array"])
    gone = {**features, "state_mask": torch.zeros_like(features["state_mask"])}
    cut = {key: value[:, :4] for key, value in features.items()}
    without = {key: value for key, value in features.items() if key != "state_mask"}
    for faulty in (gone, cut, without):
        with pytest.raises(ValueError, match="state"):
            model(dict(faulty))


def test_a_backbone_without_the_state_is_refused(tiny_backbone: Path, t5: Path) -> None:
    with pytest.raises(ValueError, match="mask"):
        load_encoder(t5, "mask")
    with pytest.raises(ValueError, match="decoder"):
        load_encoder(tiny_backbone, "first_decoder")


def _first_states(path: Path, texts: list[str], suffix: str, longest: int = 32) -> Any:
    """The decoder's first state for sentence, suffix and end, joined as ids."""
    tokenizer, model = AutoTokenizer.from_pretrained(path), T5Model.from_pretrained(path).eval()
    end = tokenizer(suffix, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    found = []
    with torch.inference_mode():
        for text in texts:
            ids = tokenizer(text, add_special_tokens=False)["input_ids"][: longest - len(end)]
            given = torch.tensor([ids + end])
            output = model(input_ids=given, decoder_input_ids=torch.tensor([[0]]))
            found.append(output.last_hidden_state[0, 0].numpy())
    return np.array(found)


def test_the_embedding_is_the_first_state_of_the_decoder(t5: Path) -> None:
    texts = ["red file", "the new array is open", "read the old row", "write " * 80 + "blue"]
    model = load_encoder(t5, "first_decoder", prompt=" is it red")
    found = encode(model, texts, batch_size=2, normalise=False)
    np.testing.assert_allclose(found, _first_states(t5, texts, "is it red"), atol=1e-5)
    short = load_encoder(t5, "first_decoder", prompt=" is it red", max_length=6)
    expected = _first_states(t5, texts, "is it red", longest=6)
    np.testing.assert_allclose(encode(short, texts, normalise=False), expected, atol=1e-5)
