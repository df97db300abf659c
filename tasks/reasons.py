"""Why rows are left out: the reasons in `rejects`, in words, and what keeps more such rows.

The report, `docs/sql.md` and the remedies of findings come from this list. A new reason is a line
here. No stage imports it: a wording that is mended makes no artifact anew.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple


class Reason(NamedTuple):
    """A reason of one stage.

    text: a clause about the row. remedy: what keeps more such rows; a threshold of `select` stands
    there as `{positive_min}`. spare: the row has no fault, it was merely not needed.
    """

    name: str
    text: str
    remedy: str = ""
    spare: bool = False


class Group(NamedTuple):
    """The reasons of some stages. row_id: what `rejects.row_id` identifies."""

    stages: Sequence[str]
    row_id: str
    reasons: Sequence[Reason]


REASONS: Sequence[Group] = (
    Group(
        ["ingest"],
        "the text; of a fault in a file, its place and reason",
        (
            Reason("too_short", "has fewer words than ingest.min_words", "lower ingest.min_words"),
            Reason("too_long", "has more words than ingest.max_words", "raise ingest.max_words"),
            Reason("duplicate", "equals an earlier sentence"),
            Reason(
                "shared_with_test",
                "shares eight words in a row with test, no set phrase (ingest.common)",
                "lower ingest.test",
            ),
            Reason(
                "shared_with_dev",
                "shares eight words in a row with dev, no set phrase (ingest.common)",
                "lower ingest.dev",
            ),
            Reason(
                "like_test",
                "has nearly the words of a text of test: a Jaccard index of 0.8 or more",
                "lower ingest.test",
            ),
            Reason(
                "like_dev",
                "has nearly the words of a text of dev: a Jaccard index of 0.8 or more",
                "lower ingest.dev",
            ),
            Reason("markup", "is code, a formula or a label between the prose of pydocs"),
            Reason("duplicate_query", "has the query of an earlier pair"),
            Reason("duplicate_answer", "has the answer of an earlier pair"),
            Reason("not_utf8", "is not UTF-8"),
            Reason("bad_json", "is not a JSON object"),
            Reason("bad_csv", "is no record of the file's dialect, or has too many fields"),
            Reason("unparsable", "is not valid Python"),
            Reason("unreadable", "is a file that cannot be read"),
            Reason("bad_document", "is a document that its reader cannot read, or not in time"),
            Reason("line_too_long", "is a line longer than ingest.max_line_bytes"),
            Reason("page_too_long", "is a page longer than ingest.max_line_bytes"),
            Reason("missing_text", "has no text"),
            Reason("incomplete_pair", "lacks one text of the pair; its own text, or answer, stays"),
            Reason("html", "no loss: the corpus's first text that HTML was taken out of"),
        ),
    ),
    Group(
        ["passages"],
        "the document, or the passage",
        (
            Reason("document_left_out", "is of a document that is left out"),
            Reason("duplicate", "equals an earlier passage"),
        ),
    ),
    Group(
        ["labelled"],
        "the row; faulty rows as in `ingest`",
        (
            Reason("bad_label", "has an invalid class, score or cosine"),
            Reason("neutral", "is a pair whose texts neither entail nor contradict each other"),
            Reason("ambiguous", "stands under two classes, as do pairs of fit_pair"),
            Reason("no_positive", "is a contradiction whose premise has no entailment"),
            Reason("surplus", "is a contradiction more than its premise has entailments"),
            Reason(
                "held_out_text",
                "shares eight words in a row, or a whole shorter text, with dev or test",
                "lower ingest.test",
            ),
        ),
    ),
    Group(
        ["extract_generate", "synthesise"],
        "the sentence, or the passage",
        (
            Reason("failed", "got no text in any attempt to ask"),
            Reason("error", "made the method, or its prompt file, fail"),
            Reason("empty_prompt", "gives an empty prompt"),
        ),
    ),
    Group(
        ["extract_parse"],
        "the generation",
        (
            Reason("not_json", "is not the JSON that was asked for"),
            Reason("not_in_text", "has an item that the sentence does not contain"),
            Reason("number_not_there", "has another number than the sentence"),
            Reason("overlapping", "has an item inside another one"),
            Reason("unknown_type", "has a type that is not one of the list"),
            Reason("unknown_category", "has a category that is not one of the list"),
            Reason("too_many", "has items beyond the first 200"),
        ),
    ),
    Group(
        ["parse"],
        "the generation",
        (
            Reason(
                "cut_off", "ends at the length limit, or inside a thought", "raise its max_tokens"
            ),
            Reason("refusal", "says that the model declines"),
            Reason("preamble", "talks about the answer"),
            Reason("speaks_of_text", "is a query that speaks of the text it was written for"),
            Reason("echo", "repeats the prompt, or with the check whole_source the whole anchor"),
            Reason("damaged", "has lost or garbled characters that nothing mends"),
            Reason("markup", "has a tag, a list marker or JSON"),
            Reason("several_lines", "has a line break inside"),
            Reason("repetition", "repeats 20 characters, or in a query a word three times"),
            Reason("wrong_script", "is not in the anchor's script"),
            Reason("wrong_language", "is not in the anchor's language"),
            Reason("no_question", "has no question mark at its end"),
            Reason("copied_words", "is a query with eight words in a row of its passage"),
            Reason("missing_entity", "lacks the new entity"),
            Reason("unchanged_entity", "still has the old entity"),
            Reason("missing_number", "lacks the new number"),
            Reason("unchanged_number", "still has the old number"),
            Reason("empty", "has no letter and no digit"),
            Reason("same_as_source", "equals its anchor, ignoring case and spacing"),
            Reason("too_short", "has fewer words than parse.min_words"),
            Reason("too_long", "has more words than parse.max_words, or 40 in a query"),
            Reason("short_source", "has an anchor of fewer words than parse.source_min_words"),
            Reason("contained", "is a part of its sentence or passage, or the reverse"),
            Reason("duplicate", "equals another candidate of its anchor and role"),
        ),
    ),
    Group(
        ["passage_vectors", "negatives"],
        "the passage, or the row",
        (Reason("nan_vector", "gets NaN or infinity from the encoder"),),
    ),
    Group(
        ["score"],
        "the candidate",
        (
            Reason("no_embedding", "has no vector"),
            Reason("nan_score", "has a score that is not a number"),
        ),
    ),
    Group(
        ["select"],
        "the candidate",
        (
            Reason(
                "below_positive_min",
                "too far from the anchor for a positive",
                "lower {positive_min}",
            ),
            Reason(
                "above_negative_max",
                "too close to the anchor for a negative",
                "raise {negative_max}",
            ),
            Reason("below_p_min", "too improbable in its role", "lower {p_min}"),
            Reason("beyond_rank_max", "other passages answer the query better", "raise {rank_max}"),
            Reason("no_score", "has no score"),
            Reason("no_weight", "its method has the weight 0"),
            Reason(
                "held_out_text",
                "shares eight words in a row, or a whole shorter text, with dev or test",
                "lower ingest.test",
            ),
            Reason("common_query", "is a query that more than three passages have"),
            Reason("duplicate", "accepted, but has the text of another method or passage"),
            Reason(
                "no_pair",
                "accepted, but there is nothing to pair it with",
                "list methods for the other role under synthesise, or train on rows: anchors",
                spare=True,
            ),
            Reason("same_text", "accepted, but equals its partner", spare=True),
            Reason("surplus", "accepted, but its anchor has enough triplets", spare=True),
            Reason("unused_fallback", "is a random text that no triplet needed", spare=True),
        ),
    ),
    Group(
        ["fit_pair", "fit_generator"],
        "both texts",
        (Reason("known_anchor", "is a pair of dev whose anchor is learnt from"),),
    ),
    Group(
        ["awareness"],
        "the sentence, or none",
        (
            Reason("no_negative", "no rule can change it"),
            Reason("no_positive", "no rule rewords it"),
            Reason("train_text", "becomes a sentence of train"),
            Reason("test_text", "becomes a sentence of test"),
            Reason("too_few", "fewer than 30 pairs of a kind"),
            Reason("constant", "the teacher gives all pairs the same cosine"),
        ),
    ),
    Group(["guard"], "the row", (Reason("contaminated", "shares text with an evaluation set"),)),
    Group(
        ["entry_matrix", "define"],
        "the entry, or none",
        (
            Reason("no_definition", "the guard removed all of its definitions"),
            Reason("no_held_out", "no definition is held out to measure by"),
            Reason("no_entry", "the entries of held-out definitions are gone"),
        ),
    ),
    Group(
        ["labels", "halves"],
        "none; `text` has the split or the label",
        (
            Reason("rare_label", "fewer than ten training texts have this label"),
            Reason("one_label", "fewer than two labels are frequent"),
            Reason("no_texts", "a split has no labelled texts"),
            Reason("no_halves", "hardly a text of a split can be cut in two"),
        ),
    ),
    Group(
        ["judgements"],
        "the query, or none",
        (
            Reason("no_document", "its file or id is not there"),
            Reason("no_passage", "its quote is in no passage"),
            Reason("several_files", "its file is the name of several"),
            Reason("no_judgement", "all of its grades are 0 or below"),
            Reason("repeated", "asked all the same: an earlier row has its judgement"),
            Reason("broad", "asked all the same: a tenth of all that is ranked answers it"),
            Reason("unread", "asked all the same: it has a column that is not read"),
        ),
    ),
    Group(
        ["evaluate"],
        "none; faulty rows as in `ingest` and `labelled`",
        (
            Reason("no_pairs", "a split has no pairs"),
            Reason("no_document", "relevant documents are not there"),
            Reason("no_judgement", "queries have no relevant document"),
            Reason("no_ranking", "queries have nothing to rank"),
        ),
    ),
)

_BY_STAGE = {
    (stage, one.name): one for group in REASONS for stage in group.stages for one in group.reasons
}
_BY_NAME = {one.name: one for group in reversed(REASONS) for one in group.reasons}
SPARE = frozenset(one.name for one in _BY_STAGE.values() if one.spare)
# Those of a row that does not meet a threshold of `select`.
BY_THRESHOLD = tuple(one.name for one in _BY_STAGE.values() if "{" in one.remedy)


def reason_of(name: str, stage: str) -> Reason:
    """The reason of that stage, else the first of that name. A plug-in's has its name as text."""
    unlisted = Reason(name, name.replace("_", " "))
    return _BY_STAGE.get((stage, name)) or _BY_NAME.get(name, unlisted)


def remedies(
    names: Iterable[str], stage: str, select: Mapping[str, Any] | None = None
) -> list[str]:
    """What keeps more rows that were left out for these reasons, each remedy once.

    select: the settings of `select`, as JSON has them.
    """
    texts = dict.fromkeys(reason_of(name, stage).remedy for name in names)
    return [
        re.sub(r"\{(\w+)\}", lambda found: threshold_keys(found[1], select or {}), text)
        for text in texts
        if text
    ]


def threshold_keys(name: str, select: Mapping[str, Any]) -> str:
    """The general key of a threshold, and those of relations and methods that have their own.

    Their own takes the general one's place for their texts, so that changing the general one would
    do nothing to those.
    name: such as positive_min. select: the settings of `select`, as JSON has them.
    """
    keys = [
        f"select.{kind}.{one}.{name}"
        for kind in ("relations", "methods")
        for one, settings in select.get(kind, {}).items()
        if settings.get(name) is not None
    ]
    listed = " and ".join(keys)
    return f"select.{name}" + (f" (where they count instead, {listed})" if keys else "")
