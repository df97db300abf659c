"""Findings about texts of methods: one text for all, copies of the source, hardly any usable texts,
cut texts, and texts that `select` refuses or replaces.

A language model that always gives the same answer, or useless answers, does not end a run: its rows
are refused with a reason, or a fallback takes their place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tercet.tasks.findings.finding import Finding, Look, counted, cut, cut_sql
from tercet.tasks.findings.warning import StageWarning
from tercet.tasks.scoring.select import RANDOM
from tercet.tasks.synthesis.methods import SynthesiseConfig

if TYPE_CHECKING:
    from tercet.models.llm.client.client import Tally

# A method that works keeps a tenth of its candidates or more under strict thresholds. A share of
# five percent shows in a hundred rows, no row at all shows in ten.
ACCEPTED, OF_MANY, OF_FEW = 0.05, 100, 10
# Even in a small run a few short answers may be equal by chance.
REPEATED, REPEATS = 0.01, 5
# A model without an answer returns copies of the sentence.
COPIED = 0.2
# A restart costs the open requests; a healthy endpoint loses hardly any row otherwise.
FRUITLESS = 0.1
# Above this share, training is mostly on the fallback.
FALLEN_BACK = 0.5

_READ = (
    "read them with their prompts (tercet try RECIPE --method {key}), and change the prompt, the "
)
_READ += "temperature or the model"
_ONE_ANSWER = """
WITH answers AS (SELECT hash(trim(raw)) AS answer, count(*) AS n FROM generations GROUP BY answer),
    top AS (SELECT arg_max(answer, n) AS answer, max(n) AS most, sum(n) AS total FROM answers)
SELECT $method AS key, most::BIGINT AS count, total::BIGINT AS total,
    (SELECT any_value(raw) FROM generations WHERE hash(trim(raw)) = top.answer) AS example
FROM top"""


def _refused(counts: str, rows: str, row_id: str) -> str:
    """A query of each method's refused rows, their reasons, and how many are copies.

    counts: query of (method, total, accepted). rows: the table with the column `row_id`.
    """
    return f"""
    WITH refused AS (SELECT method, reason, count(*) AS n, min(rejects.text) AS text
        FROM rejects JOIN {rows} ON {row_id} = rejects.row_id GROUP BY ALL)
    SELECT method AS key, total - accepted AS count, total, accepted,
        list({{reason: reason, n: n}} ORDER BY n DESC, reason) AS why,
        arg_max(text, n) AS example, arg_max(reason, n) AS most,
        coalesce(sum(n) FILTER (reason = 'same_as_source'), 0)::BIGINT AS copies,
        any_value(text) FILTER (reason = 'same_as_source') AS copied
    FROM ({counts}) JOIN refused USING (method) GROUP BY ALL"""


_OF_PARSE = _refused(
    """SELECT method, count(*) AS total, count(c.generation_id) AS accepted FROM generations
    LEFT JOIN (SELECT DISTINCT generation_id FROM candidates) c USING (generation_id)
    GROUP BY method""",
    "generations",
    "generation_id",
)
_OF_SELECT = _refused(
    """SELECT method, sum(candidates)::BIGINT AS total, sum(accepted)::BIGINT AS accepted
    FROM acceptance GROUP BY method""",
    "candidates",
    "candidate_id",
)


def _few_accepted(rows: str) -> Finding:
    # With the reason `no_weight` the recipe itself wants none of the method's rows.
    return Finding(
        "refused",
        rows,
        "{count:,} of {total:,} rows of {key} were refused ({reasons})",
        "read them (tercet try RECIPE --method {key})",
        f"""(total >= {OF_MANY} AND accepted < {ACCEPTED} * total
        OR total >= {OF_FEW} AND accepted = 0)
        AND most <> 'no_weight' AND copies < {COPIED} * total""",
    )


def _fallen_back(purpose: str, hit: str) -> Callable[[Look], str]:
    """A query of triplets with a fallback in place of a text that methods should write.

    A random negative is a fallback unless `select.methods` lists it.
    """

    def rows(look: Look) -> str:
        methods = [one.described for one in look.configs if isinstance(one, SynthesiseConfig)]
        purposes = {method.purpose for method in methods if method.name != RANDOM}
        by_choice = purpose == "negative" and RANDOM in look.work.config.methods
        return (
            counted(hit, "FROM triplets", "min(anchor)")
            if purpose in purposes and not by_choice
            else ""
        )

    return rows


UNLIKE = Finding(
    "unlike",
    "",
    "{difference}",
    "their answers are stored as one model's; serve one model at all of run.llm.endpoints",
)
NO_TEXT = Finding(
    "no_text",
    "",
    "{key} brought no text in {count:,} of {total:,} attempts",
    "read its log, and take it out of run.llm.endpoints if it cannot be repaired",
)
FINDINGS: Mapping[str, Sequence[Finding]] = {
    "synthesise": (
        Finding(
            "one_answer",
            lambda look: _ONE_ANSWER if look.work.config.described.prompted else "",
            "{count:,} of {total:,} answers are the same text",
            _READ,
            f"count >= {REPEATS} AND count > {REPEATED} * total",
        ),
    ),
    "parse": (
        Finding(
            "copied",
            f"SELECT key, copies AS count, total, copied AS example FROM ({_OF_PARSE})",
            "{count:,} of {total:,} rows of {key} are copies of their sentence",
            _READ,
            f"total >= {OF_FEW} AND count >= {COPIED} * total",
        ),
        _few_accepted(_OF_PARSE),
    ),
    "embed": (
        cut(
            "embed",
            lambda look: cut_sql(
                "candidates",
                "candidates that the evaluator compares",
                ("text",),
                "candidates",
                look.work.config.max_length,
            ),
        ),
    ),
    "select": (
        _few_accepted(_OF_SELECT),
        Finding(
            "random_negative",
            _fallen_back("negative", f"negative_method = '{RANDOM}'"),
            "{count:,} of {total:,} triplets have a random sentence as their negative, since no "
            "text written for it was accepted",
            "see what was refused (tercet sql 'SELECT * FROM acceptance')",
            f"count > {FALLEN_BACK} * total",
        ),
        Finding(
            "self_positive",
            _fallen_back("positive", "positive_id IS NULL"),
            "{count:,} of {total:,} triplets have the anchor itself as their positive, since no "
            "text written for it was accepted",
            "see what was refused (tercet sql 'SELECT * FROM acceptance')",
            f"count > {FALLEN_BACK} * total",
        ),
    ),
}


def find_fruitless(tally: "Tally") -> Iterator[StageWarning]:
    """A warning of an endpoint that brought no text for many of its rows, or for all."""
    count, total = tally.fruitless, tally.fruitless + tally.answered
    if count and (not tally.answered or (count >= OF_FEW and count >= FRUITLESS * total)):
        yield NO_TEXT.warning(
            {"key": tally.shown, "count": count, "total": total, "example": tally.fault}
        )
