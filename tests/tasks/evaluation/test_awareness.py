"""The stage `awareness`, with a stand-in for the teacher whose vectors the tests know."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from awareness_corpus import corpus, emitted, inputs_of, sentences_of, stored
from evaluation_stage import encoder, words
from failures import fails

from tercet.models import seeding
from tercet.storage.code import code_digests
from tercet.storage.fingerprint import tree_digest
from tercet.storage.rows import Rows, rows_of
from tercet.tasks.evaluation import awareness, evaluate
from tercet.tasks.evaluation.awareness import AWARENESS_PAIRS, AwarenessConfig
from tercet.tasks.evaluation.suites.sts import read_awareness

__all__ = ["encoder"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    return inputs_of(tmp_path_factory.mktemp("awareness"), corpus())


@pytest.fixture
def teacher(tmp_path: Path) -> Path:
    path = tmp_path / "teacher"
    path.mkdir()
    (path / "config.json").write_text("{}")
    return path


def aware(
    inputs: Mapping[str, Rows], teacher: Path, seed: int = 3, **config: Any
) -> dict[str, pa.Table]:
    settings = AwarenessConfig(teacher="x", **config)
    models = {"teacher": teacher}
    return emitted(awareness.STAGE, settings, inputs, teacher.parent, models, seed)


def test_each_anchor_has_a_negative_and_a_positive_of_its_kind(encoder, inputs, teacher) -> None:
    rows = aware(inputs, teacher, pooling="cls", max_length=32)["awareness_pairs"].to_pylist()
    # The teacher runs no code of its own, and encodes each text once.
    assert encoder.loaded == [(teacher, "cls", 32, "cpu", False)]
    assert len(set(encoder.seen)) == len(encoder.seen)
    assert len({row["pair_id"] for row in rows}) == len(rows)
    sentences = inputs["sentences"].table("sentences").to_pylist()
    dev = {row["sentence_id"]: row["text"] for row in sentences if row["split"] == "dev"}
    others = {row["text"].lower() for row in sentences if row["split"] != "dev"}
    for row in rows:
        assert dev[row["sentence_id"]] == row["anchor"]
        assert row["text"] != row["anchor"]
        assert row["text"].lower() not in others
        assert row["teacher"] == tree_digest(teacher)
    of_kind = {kind: [r for r in rows if r["kind"] == kind] for kind in ("entity", "quantity")}
    methods = {kind: Counter((r["role"], r["method"]) for r in of_kind[kind]) for kind in of_kind}
    either = {("positive", "synonym"), ("positive", "word_repetition")}
    assert methods["entity"].keys() == {("negative", "entity_swap"), *either}
    own = {("negative", "quantity_change"), ("positive", "number_form")}
    assert methods["quantity"].keys() - either == own
    for kind, found in of_kind.items():
        pairs = {(row["sentence_id"], row["role"]) for row in found}
        assert len(pairs) == len(found) >= 2 * 20
        assert {(i, "positive") for i, _ in pairs} == {(i, r) for i, r in pairs if r == "positive"}
        for row in found:
            if row["role"] == "negative":
                changed = row["anchor"].replace(row["old"], row["new"])
                assert changed == row["text"], kind


def test_the_teachers_cosine_by_hand(encoder, inputs, teacher) -> None:
    table = aware(inputs, teacher)["awareness_pairs"]
    for row in table.to_pylist():
        first, second = (Counter(row[name].lower().split()) for name in ("anchor", "text"))
        product = sum(first[word] * second[word] for word in first)
        lengths = [sum(count * count for count in c.values()) ** 0.5 for c in (first, second)]
        expected = product / (lengths[0] * lengths[1])
        assert row["teacher_similarity"] == pytest.approx(expected, abs=1e-6)
    # One word of twelve is another: eleven twelfths are left.
    found = [r for r in table.to_pylist() if r["method"] == "quantity_change"]
    twelve = [r for r in found if r["anchor"].startswith("A ")]
    assert {len(set(r["anchor"].lower().split())) for r in twelve} == {12}
    assert [r["teacher_similarity"] for r in twelve] == pytest.approx([11 / 12] * len(twelve))


def test_rows_do_not_depend_on_parts_or_order(encoder, inputs, teacher, tmp_path) -> None:
    expected = aware(inputs, teacher, rows=25)["awareness_pairs"]
    draw = np.random.default_rng(8)
    moved = dict(inputs)
    for slot, name in (("sentences", "sentences"), ("mentions", "mentions")):
        table = inputs[slot].table(name)
        table = table.take(pa.array(draw.permutation(len(table))))
        files = stored(tmp_path, f"moved_{name}", table.slice(0, 40), table.slice(40))
        moved[slot] = rows_of({name: files})
    assert aware(moved, teacher, rows=25)["awareness_pairs"].equals(expected)


def test_a_smaller_number_of_rows_is_a_part_of_a_larger(encoder, inputs, teacher) -> None:
    few, many, other = (
        aware(inputs, teacher, seed, rows=rows)["awareness_pairs"]
        for rows, seed in ((20, 3), (30, 3), (20, 4))
    )
    ids = [set(table["pair_id"].to_pylist()) for table in (few, many, other)]
    assert ids[0] < ids[1]
    assert ids[0] != ids[2]
    for kind in ("entity", "quantity"):
        anchors = few.filter(pc.equal(few["kind"], kind))["sentence_id"].unique()
        assert 0 < len(anchors) <= 20


def test_what_a_rule_makes_of_dev_may_stand_in_train(encoder, inputs, teacher, tmp_path) -> None:
    before = aware(inputs, teacher)
    row = next(r for r in before["awareness_pairs"].to_pylist() if r["kind"] == "quantity")
    chosen = row["sentence_id"]
    texts = [r for r in before["awareness_pairs"].to_pylist() if r["sentence_id"] == chosen]
    planted = [(texts[0]["text"].upper(), "train"), (texts[1]["text"], "test")]
    sentences = inputs["sentences"].table("sentences")
    both = pa.concat_tables([sentences, sentences_of(planted)])
    changed = {**inputs, "sentences": rows_of({"sentences": stored(tmp_path, "both", both)})}
    after = aware(changed, teacher)
    kinds = {texts[0]["kind"], texts[1]["kind"]}
    left = [r for r in after["awareness_pairs"].to_pylist() if r["kind"] in kinds]
    assert chosen not in {r["sentence_id"] for r in left}
    rejects = [r for r in after["rejects"].to_pylist() if r["reason"].endswith("_text")]
    assert {(r["row_id"], r["reason"]) for r in rejects} == {
        (chosen, "train_text"),
        (chosen, "test_text"),
    }


def test_sentences_that_cannot_be_used_are_rejects(encoder, inputs, teacher, tmp_path) -> None:
    # "One of" is hardly a number, and nothing in the graph is like the zebu.
    odd = [(f"One of the {word} was seen.", "dev") for word in ("dogs", "cats")]
    sentences = pa.concat_tables([inputs["sentences"].table("sentences"), sentences_of(odd)])
    files = rows_of({"sentences": stored(tmp_path, "odd", sentences)})
    given = {"sentences": files, "graph": inputs["graph"]}
    out = aware(given, teacher)
    ids = set(seeding.text_ids([text for text, _ in odd]).tolist())
    refused = [r for r in out["rejects"].to_pylist() if r["row_id"] in ids]
    assert {r["reason"] for r in refused} == {"no_negative"}


def test_too_few_pairs_are_not_measured(encoder, inputs, teacher) -> None:
    out = aware(inputs, teacher, rows=10)
    assert out["awareness_pairs"].num_rows == 0
    left_out = [r for r in out["rejects"].to_pylist() if r["reason"] == "too_few"]
    assert [(r["row_id"], r["detail"].split(",")[0]) for r in left_out] == [
        (None, "entity: 18 pairs"),
        (None, "quantity: 20 pairs"),
    ]
    assert read_awareness(out["awareness_pairs"]) == []


def test_no_dev_sentence_and_no_numbers(encoder, teacher, tmp_path) -> None:
    none = inputs_of(tmp_path / "none", sentences_of([("The dog has 12 parts.", "train")]))
    out = aware(none, teacher)
    assert out["awareness_pairs"].num_rows == 0
    assert out["rejects"]["reason"].to_pylist() == ["too_few"] * 2
    plain = corpus()
    texts = [t for t in plain.to_pylist() if not any(c.isdigit() for c in t["text"])]
    rows = [(t["text"], "dev" if i % 2 else "train") for i, t in enumerate(texts)]
    rows += [(t.replace("begins", "starts"), "dev") for t, _ in rows]
    wordy = inputs_of(tmp_path / "wordy", sentences_of(dict(rows).items()))
    out = aware(wordy, teacher)
    kinds = Counter(out["awareness_pairs"]["kind"].to_pylist())
    assert kinds["quantity"] == 0
    assert kinds["entity"] >= 30
    assert [t.name for t in read_awareness(out["awareness_pairs"])] == ["entity", "all"]


def test_a_teacher_that_tells_nothing_apart(encoder, inputs, teacher) -> None:
    encoder.embed = lambda text: np.ones(8)
    out = aware(inputs, teacher)
    assert out["awareness_pairs"].num_rows == 0
    assert out["rejects"]["reason"].to_pylist().count("constant") == 2


@pytest.mark.parametrize("fault", [np.nan, np.inf, 0.0])
def test_cosines_that_are_no_numbers_are_rejects(encoder, inputs, teacher, fault: float) -> None:
    whole = aware(inputs, teacher)["awareness_pairs"].to_pylist()
    victim = whole[0]["text"]

    def embed(text: str) -> np.ndarray:
        return np.full(1024, fault) if text == victim else words(text)

    encoder.embed = embed
    out = aware(inputs, teacher)
    bad = [r for r in whole if r["text"] == victim]
    assert [r["text"] for r in out["rejects"].to_pylist() if r["reason"] == "nan_score"] == [
        victim
    ] * len(bad)
    assert out["awareness_pairs"].to_pylist() == [r for r in whole if r not in bad]


def test_a_teacher_that_is_damaged_or_cannot_be_loaded_is_named(encoder, inputs, teacher) -> None:
    encoder.embed = lambda text: np.full(8, np.nan)
    with fails("damaged", "awareness.teacher"):
        aware(inputs, teacher)

    def load_encoder(*arguments: Any, **options: Any) -> Any:
        raise ValueError("No sentence encoder can be loaded from here: it is empty")

    encoder.load_encoder = load_encoder
    with fails("unfit_model", "awareness.teacher"):
        aware(inputs, teacher)


def test_only_the_rules_it_uses_are_part_of_its_code() -> None:
    own = code_digests([awareness.STAGE.run.__module__])
    rules = {name.rpartition(".")[2] for name in own if name.startswith("tercet.models.rules.")}
    assert {"entity_swap", "quantity_change", "number_form", "noise", "word_exchange"} <= rules
    assert not rules & {"antonym", "negation", "paragraphs", "random_sentence"}
    assert "tercet.tasks.synthesis.synthesise" not in own
    measured = code_digests([evaluate.STAGE.run.__module__])
    assert "tercet.tasks.evaluation.awareness" not in measured
    assert not [name for name in measured if name.startswith("tercet.models.rules")]


def test_tasks_of_the_pairs() -> None:
    names = ("pair_id", "kind", "anchor", "text", "teacher_similarity")
    rows = [
        (9, "quantity", "a b", "a c", 0.25),
        (2, "entity", "a b", "d", 0.5),
        (5, "entity", "a b", "a c", 0.25),
        (7, "quantity", "e f", "e", 0.75),
    ]
    blank = dict.fromkeys(AWARENESS_PAIRS.names)
    table = [{**blank, **dict(zip(names, row, strict=True))} for row in rows]
    entity, quantity, everything = read_awareness(pa.Table.from_pylist(table, AWARENESS_PAIRS))
    assert [task.name for task in (entity, quantity, everything)] == ["entity", "quantity", "all"]
    (part,) = entity.parts
    assert (part.first, part.second) == (("a b", "a b"), ("d", "a c"))
    assert part.scores.tolist() == [0.5, 0.25]
    (part,) = everything.parts  # the pair of both kinds counts once
    assert part.second == ("d", "a c", "e")
    assert part.scores.tolist() == [0.5, 0.25, 0.75]
