"""Why a row was left out, in a few words. `docs/tables.md` says it at length."""

REASONS = {
    "above_negative_max": "too near to the anchor for a negative",
    "bad_csv": "a record that cannot be parsed",
    "bad_json": "a line that is no JSON object",
    "below_negative_min": "too far from the anchor for a hard negative",
    "below_p_min": "too improbable in its role",
    "below_positive_min": "too far from the anchor for a positive",
    "contaminated": "shares text with an evaluation set",
    "cut_off": "the length limit ended the answer",
    "duplicate": "said already",
    "duplicate_answer": "the answer of an earlier pair",
    "duplicate_query": "the query of an earlier pair",
    "echo": "repeats the prompt",
    "empty": "nothing was said",
    "empty_prompt": "nothing came of the prompt file",
    "error": "the method broke on it",
    "failed": "asking failed for good",
    "held_out_text": "shares text with dev or test",
    "line_too_long": "a line beyond the limit",
    "markup": "not prose",
    "missing_entity": "the new entity is not there",
    "missing_number": "the new number is not there",
    "missing_text": "no text",
    "nan_score": "the cosine is no number",
    "no_embedding": "no vector",
    "no_pair": "fit, but nothing fits for the other role",
    "no_pairs": "a split without pairs",
    "no_score": "no score",
    "no_weight": "its method has the weight 0",
    "not_utf8": "not UTF-8",
    "preamble": "speaks of the answer",
    "refusal": "the model declined",
    "repetition": "says the same twice",
    "same_as_source": "it is the anchor itself",
    "same_text": "fit, but its partner says the same",
    "several_lines": "a line break inside",
    "shared_with_dev": "shares eight words with dev",
    "shared_with_test": "shares eight words with test",
    "surplus": "fit, but its anchor has its triplets",
    "too_long": "too long",
    "too_short": "too short",
    "unchanged_entity": "the old entity is still there",
    "unchanged_number": "the old number is still there",
    "unparsable": "no Python",
    "unreadable": "cannot be read",
    "unused_fallback": "a random text that no triplet needed",
    "wrong_language": "another language than the anchor's",
    "wrong_script": "another script than the anchor's",
}

# Left out without having been found wanting.
SPARE = ("no_pair", "same_text", "surplus", "unused_fallback")

BY_THRESHOLD = ("above_negative_max", "below_negative_min", "below_p_min", "below_positive_min")


def told(reason: str) -> str:
    """The reason in words; of one that is not listed here its name."""
    return REASONS.get(reason, reason.replace("_", " "))
