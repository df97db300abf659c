"""Stage `entry_matrix`: a row for every entry, in any state of a killed run, and its errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from failures import fails
from stages import ran, stored

from tercet.models.encoders import encoder as encoding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.entry_space import read_space
from tercet.storage.rows import Rows
from tercet.tasks import encoders
from tercet.tasks.corpus.labelled import ENTRIES, LABELLED
from tercet.tasks.training import entry_matrix
from tercet.tasks.training.entry_matrix import EntryMatrixConfig

ENTRY = ["blue", "file name", "row", "text", "value"]
# The corpus's definitions with their entries; entry 2 belongs to another corpus.
DEFINITIONS = [
    ("the first text of a file", [1]),
    ("one of the values", [3, 4]),
    ("not red and not green", [0]),
    ("a name", [1, 3]),
    ("old", [0]),
]


def given(folder: Path, rows: list[dict[str, Any]], texts: list[str]) -> dict[str, Rows]:
    entries = pa.table({"entry_id": range(len(texts)), "text": texts}).cast(ENTRIES)
    return stored(folder, labelled=pa.Table.from_pylist(rows, LABELLED), entries=entries)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, Rows]:
    rows: list[dict[str, Any]] = [
        {"row_id": 9 - i, "corpus": "words", "kind": "definitions", "anchor": text, "entries": own}
        for i, (text, own) in enumerate(DEFINITIONS)
    ]
    rows.append({"row_id": 77, "corpus": "other", "anchor": "a new column", "entries": [2]})
    rows.append({"row_id": 78, "corpus": "pairs", "anchor": "a large list"})
    return given(tmp_path, rows, ENTRY)


def made(
    inputs: dict[str, Rows], model: Path, scratch: Path, **settings: Any
) -> tuple[Path, dict[str, list[dict[str, Any]]]]:
    """The folder of the space, and the rows of each table."""
    config = EntryMatrixConfig(**{"name": "first", "corpus": "words", **settings})
    path, tables = ran(entry_matrix.STAGE, config, inputs, scratch, {"encoder": model})
    return path, {name: table.to_pylist() for name, table in tables.items()}


@pytest.mark.parametrize("entries", ["mean", "cls"])
def test_an_entrys_row_is_the_mean_over_its_definitions(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, entries: Any
) -> None:
    folder, found = made(inputs, tiny_backbone, tmp_path / "work", entries=entries)
    space = read_space(folder)
    assert space.entry_ids.tolist() == [0, 1, 3, 4]
    assert space.texts == ["blue", "file name", "text", "value"]
    model = load_encoder(tiny_backbone, entries)
    vectors = encode(model, [text for text, _ in DEFINITIONS], normalise=False)
    for entry, row in zip(space.entry_ids.tolist(), space.matrix.numpy(), strict=True):
        own = [vectors[i] for i, (_, owners) in enumerate(DEFINITIONS) if entry in owners]
        assert np.allclose(row, sum(own) / len(own), atol=1e-5)
    figures = {row["metric"]: row["value"] for row in found["entry_spaces"]}
    assert (figures["entries"], figures["definitions"]) == (4, 5)
    assert 0 < figures["isotropy"] <= 1
    assert "ica_rounds" not in figures
    assert len(found["entry_directions"]) == 32
    assert sum(row["share"] for row in found["entry_directions"]) == pytest.approx(1)
    points = {row["text"]: row for row in found["entry_points"]}
    assert list(points) == space.texts
    matrix = space.matrix.numpy().astype(np.float64)
    for columns, lying in (("x", "y"), matrix), (("pca_x", "pca_y"), matrix - matrix.mean(axis=0)):
        directions = np.linalg.svd(lying)[2][:2]
        places = np.array([[points[text][column] for column in columns] for text in space.texts])
        assert np.allclose(np.abs(places), np.abs(lying @ directions.T), atol=1e-6)
    assert found["rejects"] == []
    whose = {(row["name"], row["seed"]) for rows in found.values() for row in rows}
    assert whose == {("first", None)}


def test_vectors_keep_their_lengths_where_the_encoder_normalises(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    from sentence_transformers.base.modules import Normalize

    from tercet.models.encoders.encoder import save_encoder

    model = load_encoder(tiny_backbone, "cls")
    model.append(Normalize())
    saved = save_encoder(model, tmp_path / "normal")
    plain = read_space(made(inputs, tiny_backbone, tmp_path / "plain")[0])
    normal = read_space(made(inputs, saved, tmp_path / "of_normal")[0])
    assert np.allclose(plain.matrix, normal.matrix, atol=1e-6)


def test_word_pieces_stand_for_entries_as_in_the_earlier_paper(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    space = read_space(made(inputs, tiny_backbone, tmp_path / "work", entries="words")[0])
    model = load_encoder(tiny_backbone)
    table = model[0].model.get_input_embeddings().weight.detach().numpy()
    pieces = model.tokenizer.convert_tokens_to_ids(["file", "name"])
    assert np.allclose(space.matrix[1], table[pieces].mean(axis=0), atol=1e-6)


def test_words_of_a_byte_level_tokenizer_are_those_within_a_sentence(
    inputs: dict[str, Rows], tmp_path: Path, tiny_llm: Path
) -> None:
    from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

    tokenizer = PreTrainedTokenizerFast.from_pretrained(tiny_llm)
    config = RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, pad_token_id=0,
    )  # fmt: skip
    for saved in (tokenizer, RobertaModel(config)):
        saved.save_pretrained(tmp_path / "bytes")
    space = read_space(made(inputs, tmp_path / "bytes", tmp_path / "work", entries="words")[0])
    red, both, bare = tokenizer(["red", "red text", "text"], add_special_tokens=False)["input_ids"]
    own = both[len(red) :]
    assert own != bare
    model: Any = load_encoder(tmp_path / "bytes")
    table = model[0].model.get_input_embeddings().weight.detach().numpy()
    assert np.allclose(space.matrix[space.texts.index("text")], table[own].mean(axis=0), atol=1e-6)


def test_what_the_guard_has_found_is_left_out_and_an_entry_without_definition_is_a_reject(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    removed = pa.table({"text": ["one of the values", "old"], "removed": [True, True]})
    guarded = {"guarded_labelled": stored(tmp_path, contamination=removed)["contamination"]}
    folder, found = made({**inputs, **guarded}, tiny_backbone, tmp_path / "work")
    assert read_space(folder).texts == ["blue", "file name", "text"]
    (reject,) = found["rejects"]
    assert (reject["reason"], reject["text"]) == ("no_definition", "value")


def test_a_killed_stage_goes_on_behind_its_last_block(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "BLOCK", 2)
    whole = read_space(made(inputs, tiny_backbone, tmp_path / "whole")[0])
    seen: list[list[str]] = []

    def encoded(model: Any, texts: list[str], *rest: Any, **named: Any) -> Any:
        if len(seen) == 1 and not (tmp_path / "again").exists():
            raise KeyboardInterrupt
        seen.append(texts)
        return encode(model, texts, *rest, **named)

    monkeypatch.setattr(encoding, "encode", encoded)
    with pytest.raises(KeyboardInterrupt):
        made(inputs, tiny_backbone, tmp_path / "work")
    (tmp_path / "again").touch()
    resumed = read_space(made(inputs, tiny_backbone, tmp_path / "work")[0])
    assert [len(texts) for texts in seen] == [2, 2, 1]  # none of them twice
    assert len({text for texts in seen for text in texts}) == 5
    assert np.array_equal(resumed.matrix, whole.matrix)


def test_the_asked_for_deviation_is_that_of_every_component(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]
) -> None:
    rows = [
        {"row_id": i, "corpus": "words", "anchor": text, "entries": [i]}
        for i, text in enumerate(tiny_texts)
    ]
    words = given(tmp_path, rows, [f"e{i}" for i in range(200)])
    folder, found = made(words, tiny_backbone, tmp_path / "work", ica=0.26)
    space = read_space(folder)
    matrix = space.matrix.numpy()
    # What made the rows so is kept: training can start from it.
    assert space.turn is not None
    assert space.turn.weight.shape == (32, 32)
    encoded = encode(load_encoder(tiny_backbone, "mean"), tiny_texts, normalise=False)
    lengths = np.linalg.norm(encoded, axis=1)
    assert space.turn.length == pytest.approx(lengths.mean(), rel=1e-4)
    turned = encoded @ space.turn.weight.numpy().T + space.turn.bias.numpy()
    assert np.allclose(turned, matrix, atol=1e-3)
    # The outputs of a layer norm lie in a hyperplane.
    assert np.allclose(matrix.std(axis=0), [0.26] * 31 + [0], atol=1e-3)
    figures = {row["metric"]: row["value"] for row in found["entry_spaces"]}
    assert figures["deviation"] == pytest.approx(0.26 * (31 / 32) ** 0.5, abs=1e-3)
    assert figures["ica_rounds"] >= 1


def test_what_gives_no_entries_is_refused(
    inputs: dict[str, Rows], tmp_path: Path, tiny_backbone: Path
) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    with fails("no_rows", "entry_matrix", "'pairs'"):
        made(inputs, tiny_backbone, tmp_path / "work", corpus="pairs")
    with fails("unfit_model", "entry_matrix", "ica"):
        made(inputs, tiny_backbone, tmp_path / "work", ica=0.26)
    # An encoder without a transformer.
    tokenizer = Tokenizer.from_file(str(tiny_backbone / "tokenizer.json"))
    weights = np.zeros((tokenizer.get_vocab_size(), 8), np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, weights)]).save(str(tmp_path / "made"))
    with fails("unfit_model", "entry_matrix"):
        made(inputs, tmp_path / "made", tmp_path / "work", entries="mean")
