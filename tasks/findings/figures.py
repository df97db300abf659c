"""Findings about `judgements` and `evaluate`: rows, cut texts, ceilings, losses."""

from collections.abc import Callable, Mapping, Sequence

from tercet.models.encoders.settings import has_sides
from tercet.storage.rows import quoted
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.evaluation.evaluation_rows import DOCUMENT_PAIRS, HALVES
from tercet.tasks.evaluation.judgements import NOTES
from tercet.tasks.evaluation.suites.beir import BM25, HYBRID
from tercet.tasks.evaluation.suites.beir import SUITE as RETRIEVAL_SETS
from tercet.tasks.findings.finding import Finding, Look, cut, cut_sql

# Above this figure of the untouched model, in percent, no room is left for most gains.
CEILING = 95.0
# A figure of fewer questions cannot tell a gain from chance.
FEW = 30

_MEASURES = "('recall@1', 'ndcg@10', 'accuracy', 'spearman', 'map', 'ap')"
_NAME = "replace(concat_ws(' ', task, nullif(subset, 'all'), metric), '_', ' ')"
_BY_WORDS = f"regexp_matches(task, ' ({BM25}|{HYBRID})')"


def _untouched(rows: str) -> Callable[[Look], str]:
    """Looks at the rows only before training, so that the warning appears once."""
    return lambda look: "" if "baseline" in look.work.inputs else rows


_UNUSABLE = """
WITH sets AS (SELECT unnest($sts_sets) AS key)
SELECT key, any_value(lost) AS count, any_value(lost) + coalesce(sum(n), 0)::BIGINT AS total,
    any_value(fault) AS example
FROM (SELECT key, count(*) AS lost, replace(min(detail), key || ': ', '') AS fault
    FROM sets JOIN rejects ON starts_with(detail, key || ': row ') GROUP BY key)
LEFT JOIN evaluations ON suite = 'sts_sets' AND task IN (key, key || ' dev')
    AND metric = 'spearman'
GROUP BY key"""
# Judged documents that a retrieval set lacks, so that no encoder can find them.
_NO_DOCUMENT = """
SELECT DISTINCT string_split(detail, ': ')[1] AS key, detail,
    replace(regexp_extract(detail, ': ([0-9,]+) ', 1), ',', '')::BIGINT AS count
FROM rejects WHERE reason = 'no_document'"""
_AT_CEILING = f"""
SELECT concat_ws(' ', task, nullif(subset, 'all'), metric) AS key, value,
    round(value * n / 100)::BIGINT AS count, n AS total, {_NAME} AS name
FROM evaluations WHERE metric IN {_MEASURES} AND value >= {CEILING} AND n >= {FEW}
    AND (subset = 'all' OR suite NOT IN ('sts', 'fact_order'))
    AND (suite <> '{RETRIEVAL_SETS}' OR metric = 'ndcg@10' AND NOT {_BY_WORDS})"""
# Losses on the user's own questions, graded pairs or labels.
_WORSE = f"""
SELECT replace(concat_ws(' ', task, nullif(subset, 'all'), metric), '_gain', '') AS key,
    replace({_NAME}, ' gain', '') AS name, value, ci_low, ci_high, n AS count
FROM evaluations WHERE suite IN ('{RETRIEVAL_SETS}', 'sts_sets', 'labels')
    AND metric IN ('ndcg@10_gain', 'spearman_gain', 'accuracy_gain')
    AND NOT ends_with(task, ' dev') AND NOT {_BY_WORDS} AND ci_high < 0 AND n >= {FEW}"""
# An unreadable row counts as a separate question.
_JUDGED = f"""
WITH sets AS (SELECT unnest($sets) AS task),
lost AS (SELECT task, coalesce(row_id::VARCHAR, detail) AS question, detail,
        if(reason IN {tuple(NOTES)}, reason, 'not_found') AS kind
    FROM sets JOIN rejects ON starts_with(detail, task || ': row ')),
questions AS (SELECT task, count(*) AS total FROM (
    SELECT task, question FROM lost WHERE kind <> 'unread'
    UNION SELECT task, query_id::VARCHAR FROM judgements) GROUP BY task)
SELECT task AS key, kind, if(kind = 'unread', total, count(DISTINCT question)) AS count, total,
    array_to_string(list(replace(detail, task || ': ', '') ORDER BY detail)[:3], '; ')
        || if(count(*) > 3, '; …', '') AS details
FROM lost JOIN questions USING (task) GROUP BY task, kind, total"""


def _cut(look: Look) -> str:
    """A query of pairs longer than `evaluate.max_length`; the model's own is not known here."""
    config: EvaluateConfig = look.work.config
    if "baseline" in look.work.inputs or config.max_length is None:
        return ""
    splits = ", ".join(map(quoted, config.splits))
    return " UNION ALL ".join(
        cut_sql(
            slot,
            f"texts of {slot.replace('_', ' ')}",
            ("query", "answer"),
            f"{look.work.inputs[slot].sql(table)} WHERE split IN ({splits})",
            config.max_length,
        )
        for slot, table in ((DOCUMENT_PAIRS, DOCUMENT_PAIRS), (HALVES, "questions"))
        if slot in look.work.inputs and (slot == HALVES or config.retrieval)
    )


def _no_side(look: Look) -> str:
    """A query for an encoder with prompts for search if no figure is of a search."""
    models, prompts = look.work.models, look.work.config.prompts
    if "baseline" in look.work.inputs or "model" not in models:
        return ""
    if not has_sides(models["model"], prompts):
        return ""
    return f"""SELECT NULL AS key, count(*) AS count FROM evaluations
        HAVING NOT bool_or(suite IN ('retrieval', 'retrieval_sets') AND task <> '{HALVES}')"""


def _worse(look: Look) -> str:
    config, inputs = look.work.config, look.work.inputs
    if "baseline" not in inputs or config.phase != "encoder" or config.model_seed is not None:
        return ""
    # With a mix of 0 the run ends with the untouched encoder.
    chosen = " AND NOT EXISTS (FROM choices WHERE mix = 0)" if "choices" in inputs else ""
    return _WORSE + chosen


FINDINGS: Mapping[str, Sequence[Finding]] = {
    "evaluate": (
        Finding(
            "unusable",
            _untouched(_UNUSABLE),
            "{count:,} of {total:,} rows of {key} cannot be used",
            "correct them in its file",
        ),
        Finding(
            "no_document",
            _untouched(_NO_DOCUMENT),
            "{detail}",
            "add them to corpus.jsonl, or take their lines out of qrels",
        ),
        Finding(
            "ceiling",
            _untouched(_AT_CEILING),
            "{name} is {value:.2f} before any training, at its ceiling, where no gain shows",
            "measure on harder questions, or on more candidates",
        ),
        cut("evaluate", _cut),
        Finding(
            "no_side",
            _no_side,
            "the encoder has prompts for queries and documents, but none of {total:,} figures is "
            "of a search, so all use its default prompt",
            "name queries of your own under evaluate.retrieval_sets, or the columns `query` and "
            "`answer` of a corpus",
        ),
        Finding(
            "worse",
            _worse,
            "{name} got worse: {value:+.2f} points, 95 % interval {ci_low:+.2f} to {ci_high:+.2f}",
            "keep the untouched encoder, or train less: a lower learning_rate, fewer steps",
        ),
    ),
    "judgements": tuple(
        Finding(
            kind,
            f"FROM ({_JUDGED}) WHERE kind = '{kind}'",
            f"{{count:,}} of {{total:,}} questions of {{key}} {what} ({{details}})",
            "correct these rows of its file",
        )
        for kind, what in {
            "not_found": "are left out, or lack part of what answers them",
            **NOTES,
        }.items()
    ),
}
