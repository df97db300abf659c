"""Both sides of a search, each encoded with its prompt, as sentence-transformers does it."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Router

from tercet.models.encoders.encoder import distinct_side, encode, load_encoder, save_encoder
from tercet.models.encoders.settings import SIDES, Prompts, has_sides

OWN = {"query": "the old file ", "document": "a new value of the row "}


def same_as_theirs(model: SentenceTransformer, texts: list[str]) -> None:
    theirs = {"query": model.encode_query, "document": model.encode_document}
    for side in SIDES:
        expected = theirs[side](texts, normalize_embeddings=True)
        np.testing.assert_allclose(encode(model, texts, 4, side=side), expected, atol=1e-6)


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("default", [None, "query", "sts"])
@pytest.mark.parametrize(
    "prompts",
    [
        OWN,
        {"query": "the old file ", "passage": "red "},
        {"query": "", "document": "", "corpus": "green "},
        {"corpus": "green "},
    ],
)
def test_vectors_of_both_sides_are_those_of_sentence_transformers(
    tiny_backbone: Path,
    tiny_texts: list[str],
    prompts: dict[str, str],
    default: str | None,
    pooled: bool,
) -> None:
    model = load_encoder(tiny_backbone, "mean")
    model.prompts = {**prompts, "sts": "blue blue "}
    model.default_prompt_name = default if default in model.prompts else None
    model[1].include_prompt = pooled
    same_as_theirs(model, tiny_texts[:9])


@pytest.mark.parametrize("pooling", ["mean", "mask"])
def test_a_saved_encoder_keeps_the_prompts_that_were_given_to_it(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path, pooling: str
) -> None:
    given = Prompts(query="the old file ")
    model = load_encoder(tiny_backbone, pooling, prompts=given)  # type: ignore[arg-type]
    assert not has_sides(tiny_backbone, Prompts())
    assert has_sides(tiny_backbone, given)
    save_encoder(model, tmp_path / "made")
    assert has_sides(tmp_path / "made", Prompts())
    assert not has_sides(tmp_path / "made", Prompts(query=""))
    again = load_encoder(tmp_path / "made")
    assert again.prompts == {"query": "the old file ", "document": ""}
    for side in SIDES:
        found, expected = (encode(one, tiny_texts[:5], side=side) for one in (again, model))
        np.testing.assert_array_equal(found, expected)
    same_as_theirs(again, tiny_texts[:9])
    other = load_encoder(tmp_path / "made", prompts=Prompts(query="", document="red "))
    assert other.prompts == {"query": "", "document": "red "}


def test_a_model_without_prompts_does_not_tell_sides_apart(
    tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    model = load_encoder(tiny_backbone)
    assert [distinct_side(model, side) for side in SIDES] == [None, None]
    plain, asked = encode(model, tiny_texts[:9]), encode(model, tiny_texts[:9], side="query")
    np.testing.assert_array_equal(plain, asked)


def test_a_router_sends_each_side_its_way(tiny_backbone: Path, tiny_texts: list[str]) -> None:
    ways = [[*load_encoder(tiny_backbone, pooling)] for pooling in ("mean", "cls")]
    model = SentenceTransformer(modules=[Router.for_query_document(*ways)], device="cpu")
    same_as_theirs(model, tiny_texts[:9])
    queries, documents = (encode(model, tiny_texts[:9], side=side) for side in SIDES)
    assert not np.allclose(queries, documents, atol=1e-3)


def test_a_loaded_model_whose_config_says_passage_alone_has_no_prompt_for_documents(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    model = load_encoder(tiny_backbone)
    model.prompts = {"query": "the old file ", "passage": "red "}
    save_encoder(model, tmp_path / "made")
    again = load_encoder(tmp_path / "made")
    same_as_theirs(again, tiny_texts[:9])
    assert distinct_side(again, "document") is None


def test_a_prompt_must_leave_a_text_some_room(tiny_backbone: Path) -> None:
    long = Prompts(document="old file " * 3)
    load_encoder(tiny_backbone, max_length=9, prompts=long)
    with pytest.raises(ValueError, match="document"):
        load_encoder(tiny_backbone, max_length=8, prompts=long)
