from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stages import emitted

from tercet.models import seeding
from tercet.models.generation import GENERATIONS
from tercet.tasks.synthesis import parse
from tercet.tasks.synthesis.parse import ParseConfig

SOURCE = "The dog  sat on the Mat."
NOTHING: dict[str, Any] = dict.fromkeys(
    ("operation", "old", "new", "mention_id", "node_id", "pool")
)


def parsed(
    folder: Path, rows: list[dict[str, Any]], **config: Any
) -> tuple[pa.Table, dict[int, str]]:
    """Candidates, and the reason of each rejected generation by its number."""
    source_id = seeding.text_id(SOURCE)
    full = [
        dict.fromkeys(GENERATIONS.names)
        | {"generation_id": number, "sentence_id": source_id, "purpose": "negative"}
        | {"relation": "alters"}
        | {"method": "m", "finish_reason": "stop", "detail": NOTHING}
        | row
        for number, row in enumerate(rows)
    ]
    generations = pa.Table.from_pylist(full, GENERATIONS)
    sentences = pa.table(
        {
            "sentence_id": pa.array([source_id, 5, 7], pa.uint64()),
            "text": [SOURCE, "Other.", "Two sat."],
        }
    )
    inputs = {"generations": generations, "sentences": sentences}
    tables = emitted(parse.STAGE, ParseConfig(**config), inputs, folder)
    rejects = tables["rejects"].to_pylist()
    assert all(row["stage"] == "parse" and row["detail"] for row in rejects)
    assert all(row["text"] == full[row["row_id"]]["raw"] for row in rejects)
    return tables["candidates"], {r["row_id"]: r["reason"] for r in rejects}


def test_a_good_generation_becomes_a_candidate(tmp_path: Path) -> None:
    detail = NOTHING | {
        "operation": "swap_entity",
        "old": "dog",
        "new": "Cat",
        "node_id": 2**64 - 1,
    }
    candidates, reasons = parsed(tmp_path, [{"raw": " The cat sat.\n", "detail": detail}])
    assert not reasons
    source_id = seeding.text_id(SOURCE)
    assert candidates.to_pylist() == [
        {
            "candidate_id": seeding.text_id(str(source_id), "m", "negative", "The cat sat."),
            "generation_id": 0,
            "sentence_id": source_id,
            "role": "negative",
            "relation": "alters",
            "method": "m",
            "anchor": None,
            "text": "The cat sat.",
            "detail": detail,
        }
    ]


def test_texts_within_their_sentence_are_refused_where_the_recipe_says_so(tmp_path: Path) -> None:
    rows: list[tuple[str | None, dict[str, Any]]] = [
        ("contained", {"raw": "The dog  sat!"}),
        ("contained", {"raw": "the DOG  sat on", "relation": "keeps", "purpose": "positive"}),
        ("contained", {"raw": f"Once {SOURCE[:-1]}, and then it slept."}),
        (None, {"raw": "The dog  sat!", "relation": "topic", "purpose": "positive"}),
        (None, {"raw": "The dog did not sit."}),
        (None, {"raw": "The dog sat.", "sentence_id": 9}),
    ]
    given = [row for _, row in rows]
    expected = {number: reason for number, (reason, _) in enumerate(rows) if reason}
    assert parsed(tmp_path, given, refuse_contained=True)[1] == expected
    assert parsed(tmp_path, given)[1] == {}


def test_short_sentences_give_no_candidates_where_the_recipe_says_so(tmp_path: Path) -> None:
    given = [
        {"raw": "A cat slept in the sun."},
        {"raw": "A cat slept in the sun.", "sentence_id": 7},
        {"raw": "It sat.", "sentence_id": 7, "relation": "topic", "purpose": "positive"},
        {"raw": "Nobody knows this one.", "sentence_id": 9},
    ]
    assert parsed(tmp_path, given, source_min_words=3)[1] == {1: "short_source", 2: "short_source"}
    # The sentence has six words and a space too many.
    assert set(parsed(tmp_path, given, source_min_words=8)[1]) == {0, 1, 2}


def test_reasons(tmp_path: Path) -> None:
    swap = NOTHING | {"operation": "swap_entity", "old": "dog", "new": "cat"}
    rows: list[tuple[str | None, dict[str, Any]]] = [
        ("cut_off", {"raw": "Something that", "finish_reason": "length"}),
        ("empty", {"raw": ""}),
        ("empty", {"raw": " \n\t"}),
        ("empty", {"raw": None}),
        ("same_as_source", {"raw": SOURCE}),
        ("same_as_source", {"raw": "\nthe DOG sat\ton the mat. "}),
        (None, {"raw": "The dog sat on the mat"}),
        ("too_short", {"raw": "Dog"}),
        ("too_long", {"raw": "one two three four five six seven eight"}),
        ("unchanged_entity", {"raw": "The Dog slept.", "detail": swap}),
        (None, {"raw": "The cat chased a dog.", "detail": swap}),
        (None, {"raw": "The dog is not here.", "detail": swap | {"operation": "other"}}),
        (None, {"raw": "Said twice over."}),
        ("duplicate", {"raw": "said  twice over."}),
        (None, {"raw": "Said twice over.", "purpose": "positive"}),
        (None, {"raw": "Said twice over.", "sentence_id": 5}),
        ("too_short", {"raw": "Different.", "sentence_id": 5}),
        (None, {"raw": "Of no sentence.", "sentence_id": 6}),
    ]
    candidates, reasons = parsed(tmp_path, [row for _, row in rows], min_words=2, max_words=7)
    wanted = [reason for reason, _ in rows]
    assert [reasons.get(number) for number in range(len(rows))] == wanted
    kept = [number for number, (reason, _) in enumerate(rows) if reason is None]
    assert candidates["generation_id"].to_pylist() == kept
    assert len(kept) + len(reasons) == len(rows)


PROMPT = f"Say this anew. Keep to what it meant in all its parts.\n\nSentence: {SOURCE}"
SAID = {"model": "m@1", "method": "rewrite", "prompt": PROMPT}
REVISED = {"detail": NOTHING | {"old": "dog", "new": "cat"}, "checks": ["new_entity"]}
RENUMBERED = {"detail": NOTHING | {"old": "two", "new": "7"}, "checks": ["new_number"]}


def test_what_a_model_said_is_judged_too(tmp_path: Path) -> None:
    rows: list[tuple[str | None, dict[str, Any]]] = [
        (None, {"raw": '"A dog lay on a rug."'}),
        (None, {"raw": "<think>A dog\n\nor two.</think>\n\nA dog was lying there."}),
        ("cut_off", {"raw": "<think>The user wants a dog"}),
        ("cut_off", {"raw": "I'm sorry, but I can't", "finish_reason": "length"}),
        ("empty", {"raw": "<think>No.</think> "}),
        ("same_as_source", {"raw": f"“{SOURCE}”"}),
        ("refusal", {"raw": "I'm sorry, but I can't rewrite this."}),
        ("echo", {"raw": "Keep to what it meant in all its parts. A dog sat."}),
        ("unchanged_entity", {"raw": "The dog was on the mat.", **REVISED}),
        (None, {"raw": "The cats were on the mat.", **REVISED}),
        ("unchanged_number", {"raw": "7 or two sat.", **RENUMBERED, "sentence_id": 7}),
        ("duplicate", {"raw": "'a dog lay  on a rug.'"}),
        (None, {"raw": "A caf\\u00e9\x00 dog\x1b &amp; a \u200bcat."}),
        ("too_short", {"raw": "Dog."}),
    ]
    candidates, reasons = parsed(tmp_path, [SAID | row for _, row in rows], min_words=2)
    assert [reasons.get(number) for number in range(len(rows))] == [reason for reason, _ in rows]
    assert candidates["text"].to_pylist() == [
        "A dog lay on a rug.",
        "A dog was lying there.",
        "The cats were on the mat.",
        "A café dog & a cat.",
    ]


def test_a_preceding_sentence_is_not_the_sentence_itself(tmp_path: Path) -> None:
    before = {"checks": ["whole_source"]}
    rows = [
        {"raw": f"It was late. {SOURCE}", **before},
        {"raw": "It was late, and the dog sat.", **before},
        {"raw": f"It is false that {SOURCE}"},
    ]
    _, reasons = parsed(tmp_path, [SAID | row for row in rows])
    assert reasons == {0: "echo"}


def test_an_answer_may_become_the_anchor_of_what_was_asked_about(tmp_path: Path) -> None:
    passage = f"{SOURCE} It slept."
    asked = SAID | {"checks": ["question"], "as_anchor": True}
    rows = [
        {**asked, "raw": "Where did the dog sit?"},
        {**asked, "raw": "Did the dog sleep?", "passage": passage},
        {**asked, "raw": "the dog sat on the mat. it slept", "passage": passage},
        {**SAID, "raw": "A dog sat and slept.", "passage": passage, "as_anchor": False},
        {**SAID, "raw": "A dog sat."},
        {"raw": "The dog sat."},
    ]
    candidates, reasons = parsed(tmp_path, rows)
    assert reasons == {2: "same_as_source"}
    pairs = zip(candidates["anchor"].to_pylist(), candidates["text"].to_pylist(), strict=True)
    assert list(pairs) == [
        ("Where did the dog sit?", SOURCE),
        ("Did the dog sleep?", passage),
        (passage, "A dog sat and slept."),
        (None, "A dog sat."),
        (None, "The dog sat."),
    ]
    ids = candidates["candidate_id"].to_pylist()
    assert len(set(ids)) == len(ids)


def test_rules_are_judged_as_before(tmp_path: Path) -> None:
    """What a rule says is never unwrapped, beside a model's texts or alone."""
    raws = ['"A dog."', "Sure, here is the sentence: a dog.", "<think>A dog.", "狗"]
    raws += ["A dog.\n\nB.", "- ..."]
    rules = [{"raw": raw} for raw in raws]
    candidates, reasons = parsed(tmp_path, rules)
    assert (candidates["text"].to_pylist(), reasons) == (raws, {})
    mixed = [row for raw in raws for row in ({"raw": raw}, SAID | {"raw": raw, "sentence_id": 5})]
    candidates, reasons = parsed(tmp_path, mixed)
    assert candidates.filter(candidates["method"].to_numpy() == "m")["text"].to_pylist() == raws
    refused = ("preamble", "cut_off", "wrong_script", "several_lines", "empty")
    assert reasons == dict(zip(range(3, 12, 2), refused, strict=True))
    assert candidates["generation_id"].to_pylist() == [0, 1, 2, 4, 6, 8, 10]
    assert candidates["text"].to_pylist()[1] == "A dog."


_SWAPPED = NOTHING | {"operation": "swap_entity"}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.text(max_size=40), st.sampled_from(["I'm sorry, but", '"'])),
            st.sampled_from([{}, REVISED, RENUMBERED, {"detail": _SWAPPED}]),
            st.sampled_from([None, "m@1"]),
            st.sampled_from([None, "stop", "length"]),
        ),
        max_size=20,
    )
)
def test_whatever_is_said_becomes_a_candidate_or_a_reject(
    tmp_path: Path, rows: list[tuple[str | None, dict[str, Any], str | None, str | None]]
) -> None:
    answers = [
        {"raw": raw and raw.encode("utf-8", "replace").decode(), **more}
        | {"model": model, "finish_reason": finish}
        for raw, more, model, finish in rows
    ]
    candidates, reasons = parsed(tmp_path, answers)
    ids = candidates["generation_id"].to_pylist()
    assert sorted([*ids, *reasons]) == list(range(len(answers)))
