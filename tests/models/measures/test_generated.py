"""Figures of generated texts, by hand and by the literal definition."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_generators import tiny_causal

from tercet.models import pretrained, seeding
from tercet.models.encoders.encoder import load_encoder
from tercet.models.measures import generated, resampling, rouge
from tercet.models.measures.generated import (
    DELETED,
    REPLACED,
    SYNONYMS,
    Cosines,
    controls,
    mean_word_vectors,
    row_values,
    synonyms,
    text_losses,
    unshared,
)


def of(source: str, target: str, *texts: str) -> dict[str, float]:
    same = np.full((1, len(texts)), 0.5)
    found = row_values([source], [target], [texts], Cosines(same, same * 0.5, same * 0.2))
    return {name: float(column[0]) for name, column in found.items()}


def test_a_row_by_hand() -> None:
    found = of("a b c d", "a b x", "a b c", "a x x x")
    # ROUGE-1 with "a b x": 2 of 3 and 3, and 2 ("a", "x" once) of 4 and 3.
    assert found["rouge1"] == pytest.approx(100 * (2 / 3 + 4 / 7) / 2)
    # Words of source and generation: {a,b,c,d} and {a,b,c}; {a,b,c,d} and {a,x}.
    assert found["source_diversity"] == pytest.approx(100 * (1 / 4 + 4 / 5) / 2)
    # Of both generations: {a,b,c} and {a,x} share one of four.
    assert found["generation_diversity"] == pytest.approx(75)
    assert found["type_token_ratio"] == pytest.approx(100 * (1 + 1 / 2) / 2)
    assert found["cased_type_token_ratio"] == found["type_token_ratio"]
    assert found["length"] == pytest.approx(100 * (3 + 4) / 8)
    assert found["empty"] == 0
    assert found["word_cosine"] == 50
    assert found["sentence_cosine"] == 25
    assert found["source_cosine"] == pytest.approx(10)
    means = [found["rouge1"], found["rouge2"], found["rouge_l"]]
    assert found["average_rouge"] == pytest.approx(sum(means) / 3)


def test_a_copy_and_nothing() -> None:
    copied = of("Two dogs.", "Two cats.", "two dogs", "Two dogs!")
    assert copied["source_diversity"] == copied["generation_diversity"] == 0
    nothing = of("Two dogs.", "Two cats.", "", "...")
    assert nothing["empty"] == 100
    assert nothing["length"] == nothing["rouge1"] == nothing["type_token_ratio"] == 0
    assert nothing["source_diversity"] == 100
    assert of("a", "a", "a")["generation_diversity"] == 0


def test_the_papers_scale_tells_case_apart_and_compares_characters() -> None:
    found = of("a", "The other", "The the", "the other")
    assert found["type_token_ratio"] == 75
    assert found["cased_type_token_ratio"] == 100
    # T and t: {T, h, e, t} of 6 distinct characters, and 5 of 6.
    alike = [rouge.character_rouge(text, "The other").average for text in ("The the", "the other")]
    assert found["character_rouge"] == pytest.approx(100 * sum(alike) / 2)
    assert found["character_rouge"] < 100 == of("a", "The", "The")["character_rouge"]


def test_unshared_words() -> None:
    assert unshared(["a", "a", "b"], ["b", "c"]) == pytest.approx(2 / 3)
    assert unshared([], []) == 0


def values(similarity: float, diversity: float, spread: float = 0.0) -> dict[str, np.ndarray]:
    rows = np.linspace(-spread, spread, 50)
    return {
        **dict.fromkeys(generated.SIMILARITIES, similarity + rows),
        **dict.fromkeys(generated.DIVERSITIES, diversity + rows),
    }


def value_of(measure: resampling.Measure, rows: int = 50) -> float:
    return float(measure(np.ones((1, rows), dtype=np.int32))[0])


def test_average_and_deficiency() -> None:
    found = values(70.0, 40.0)
    assert value_of(generated.average_of(found)) == pytest.approx(55)
    assert value_of(generated.deficiency_of(found)) == pytest.approx(40)
    assert value_of(generated.deficiency_of(values(30.0, 40.0))) == pytest.approx(30)
    low = resampling.interval(resampling.sampled(generated.deficiency_of(found), 50, 200, 1))
    assert low.low == pytest.approx(40)


def test_the_gain_is_read_where_the_control_changes_as_many_words() -> None:
    controls = [values(100.0, 0.0), values(80.0, 20.0), values(50.0, 40.0)]
    # At 30 the control has 65.
    measure = generated.gain_at_equal_diversity(values(70.0, 30.0), controls)
    assert value_of(measure) == pytest.approx(5)
    found = resampling.interval(resampling.sampled(measure, 50, 200, 1))
    assert found.low == pytest.approx(5)
    outside = generated.gain_at_equal_diversity(values(70.0, 45.0), controls)
    assert np.isnan(value_of(outside))


def test_perplexity_is_by_token() -> None:
    losses, tokens = np.array([2.0, 6.0]), np.array([1.0, 3.0])
    assert value_of(generated.perplexity_of(losses, tokens), 2) == pytest.approx(np.exp(2.0))


SOURCES = [f"s{i} one two three four five six seven eight nine" for i in range(12)]
TARGETS = [f"t{i}" for i in range(12)]
IDS = seeding.text_ids(SOURCES)
FOUND = controls(IDS, SOURCES, TARGETS, 3, 5)


def test_what_there_is() -> None:
    assert FOUND["human"] == [[text] for text in TARGETS]
    assert FOUND["copy"] == [[text] for text in SOURCES]
    others = set(FOUND) - {"human", "copy"}
    assert others == {*REPLACED, *DELETED, "shuffle", "random_sentence"}
    assert {len(texts) for name in others for texts in FOUND[name]} == {3}


@pytest.mark.parametrize(("name", "count"), [("10", 1), ("20", 2), ("33", 3)])
def test_so_many_words_are_replaced_and_deleted(name: str, count: int) -> None:
    pool = {word for text in SOURCES for word in text.split()}
    changed = []
    for source, texts in zip(SOURCES, FOUND[f"replaced_{name}"], strict=True):
        for text in texts:
            words = text.split()
            assert len(words) == 10
            assert set(words) <= pool
            changed.append(sum(a != b for a, b in zip(words, source.split(), strict=True)))
    # A word may be replaced by itself.
    assert max(changed) == count
    assert np.mean(changed) > 0.7 * count
    for source, texts in zip(SOURCES, FOUND[f"deleted_{name}"], strict=True):
        for text in texts:
            left = iter(source.split())
            assert len(text.split()) == 10 - count
            # What is left is in order.
            assert all(word in left for word in text.split())


def test_shuffle_keeps_the_words_and_other_sentences_are_others() -> None:
    for source, texts in zip(SOURCES, FOUND["shuffle"], strict=True):
        assert all(Counter(text.split()) == Counter(source.split()) for text in texts)
    assert any(texts[0] != source for texts, source in zip(FOUND["shuffle"], SOURCES, strict=True))
    for source, texts in zip(SOURCES, FOUND["random_sentence"], strict=True):
        assert source not in texts
        assert set(texts) <= set(SOURCES)


def test_copies_differ_and_the_seed_decides() -> None:
    assert any(len(set(texts)) > 1 for texts in FOUND["replaced_33"])
    assert controls(IDS, SOURCES, TARGETS, 3, 5) == FOUND
    assert controls(IDS, SOURCES, TARGETS, 3, 6)["shuffle"] != FOUND["shuffle"]


def test_a_rows_draws_are_its_own() -> None:
    some = controls(IDS[4:], SOURCES[4:], TARGETS[4:], 3, 5)
    for name in (*DELETED, "shuffle"):
        assert some[name] == FOUND[name][4:]


def test_a_single_word_and_a_single_row() -> None:
    found = controls(IDS[:1], ["alone"], ["x"], 2, 5)
    assert found["deleted_33"] == [["alone", "alone"]]
    assert found["random_sentence"] == [["alone", "alone"]]


SOURCES_SYNONYM_CONTROL = [
    "the large engineer began to repair the broken machine quickly in the big garage",
    "xq zv",
    "the doctor bought a small automobile and a large house near the big river",
]
IDS_SYNONYM_CONTROL = seeding.text_ids(SOURCES_SYNONYM_CONTROL)


def changed(source: str, text: str) -> int:
    return sum(a != b for a, b in zip(source.split(), text.split(), strict=False))


def test_so_many_words_are_exchanged_at_most() -> None:
    found = synonyms(IDS_SYNONYM_CONTROL, SOURCES_SYNONYM_CONTROL, 3, 5)
    assert tuple(found) == SYNONYMS
    for number in (0, 2):
        of_one, of_four = (found[name][number] for name in ("synonym_1", "synonym_4"))
        assert len(of_one) == len(of_four) == 3
        assert len(set(of_one)) > 1
        assert all(text != SOURCES_SYNONYM_CONTROL[number] for text in of_one + of_four)
        # A synonym may be of two words, which moves those behind it.
        assert changed(SOURCES_SYNONYM_CONTROL[number], of_four[0]) > 1
    assert all(texts[1] == [SOURCES_SYNONYM_CONTROL[1]] * 3 for texts in found.values())


def test_a_rows_texts_are_its_own() -> None:
    found, some = (
        synonyms(IDS_SYNONYM_CONTROL[start:], SOURCES_SYNONYM_CONTROL[start:], 2, 5)
        for start in (0, 2)
    )
    assert {name: texts[2:] for name, texts in found.items()} == some


def test_losses_token_by_token(tmp_path: Path) -> None:
    folder = tiny_causal(tmp_path / "tiny", ["red", "green", "blue"])
    tokenizer, model = pretrained.load_tokenizer(folder), pretrained.causal_model(folder).eval()
    texts = ["red green", "", "blue blue blue red", "green"]
    losses, counts = text_losses(model, tokenizer, texts, 2)
    end = tokenizer.eos_token_id
    for text, found, count in zip(texts, losses, counts, strict=True):
        ids = [end, *tokenizer(text, add_special_tokens=False)["input_ids"], end]
        total = 0.0
        for place in range(1, len(ids)):
            with torch.no_grad():
                logits = model(torch.tensor([ids[:place]])).logits[0, -1]
            total -= float(logits.log_softmax(-1)[ids[place]])
        assert found == pytest.approx(total, rel=1e-4)
        assert count == len(ids) - 1


def test_the_mean_of_the_table(tiny_backbone: Path) -> None:
    model = load_encoder(tiny_backbone)
    found = mean_word_vectors(model, ["red blue", "blue red", "red", ""])
    table = model[0].auto_model.get_input_embeddings().weight.detach().numpy()
    vocabulary = model.tokenizer.get_vocab()
    mean = (table[vocabulary["red"]] + table[vocabulary["blue"]]) / 2
    assert found[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert np.allclose(found[0], found[1])
    assert np.linalg.norm(found[2]) == pytest.approx(1)
    assert not found[3].any()
