"""Discriminators: their figures beside controls, reliability, and what they make of candidates."""

from tercet.flows.formatting import format_number, format_range
from tercet.flows.pages.blocks import Block, Cell, Note, Table
from tercet.flows.pages.redaction import public_values
from tercet.flows.report.subject import Subject, of_each_run
from tercet.flows.results.discriminators import ARMS, Judged, in_words, judged

_RELIABILITY = """
SELECT format('{:.2f} to {:.2f}', p_low, p_high) AS "P(true)", pairs,
    format('{:.3f}', mean_p) AS "said on average", format('{:.3f}', share_true) AS true,
    format('{:.3f} to {:.3f}', ci_low, ci_high) AS "95 % interval"
FROM reliability WHERE discriminator = $name ORDER BY p_low
"""
# Every candidate of which a probability says anything, by who wrote it. Of several scorers one
# decides: the others have refused nothing.
_VERDICTS = """
SELECT s.scorer AS "judged by", coalesce(g.model, 'rule') AS "written by", c.method, c.role,
    count(*) AS candidates, format('{:.3f}', avg(
        CASE c.role WHEN 'positive' THEN s.value ELSE 1 - s.value END
    )) AS "mean P(role)",
    if(coalesce($decides, s.scorer) = s.scorer, count(*) FILTER (r.reason = 'below_p_min'), NULL)
        AS "below p_min",
    if(coalesce($decides, s.scorer) = s.scorer, count(*) FILTER (r.row_id IS NULL), NULL)
        AS "in triplets"
FROM candidates c JOIN scores s ON s.candidate_id = c.candidate_id AND s.measure = 'p_true'
LEFT JOIN generations g USING (generation_id)
LEFT JOIN rejects r ON r.stage = 'select' AND r.row_id = c.candidate_id
WHERE c.relation IN ('keeps', 'alters') GROUP BY s.scorer, g.model, c.method, c.role ORDER BY ALL
"""


@of_each_run(
    "Discriminators",
    "No discriminator was fitted: `fit_pair` under `models` makes one.",
    "How well a discriminator tells which texts follow from a sentence, on anchors that it was not "
    "fitted to, and how it judges the candidates. Texts on the topic are not judged.",
)
def discriminators(subject: Subject) -> list[Block]:
    """The run's discriminators, and the acceptance by generator and method."""
    blocks: list[Block] = []
    for one in judged(subject.connection):
        blocks += [_figures(one), Note(in_words(one))]
        caption = f"Reliability of {one.name}: held-out pairs by the probability that it gave them."
        blocks += subject.table(_RELIABILITY, caption, "lrrrr", {"name": one.name})
    if not blocks:
        return []
    decides = (subject.recipe.get("select") or {}).get("p_true")
    caption = "Candidates that keep or alter the meaning."
    verdicts = subject.table(_VERDICTS, caption, "llllrrrr", {"decides": decides}, public_values)
    return [*blocks, *(verdicts or [Note("No scorer has judged the candidates.", "missing")])]


def _figures(one: Judged) -> Table:
    rows: list[list[Cell]] = [
        [
            ARMS[arm],
            format_number(of.auc, 3),
            format_range(of.low, of.high, 3),
            format_number(of.accuracy, 1),
            format_number(of.calibration_error, 3),
            "" if of.gain is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*of.gain),
        ]
        for arm, of in one.arms.items()
    ]
    heads = ["judged by", "AUC", "95 % interval", "right, %", "calibration error", "gain over it"]
    caption = f"{one.name}, on {one.pairs:,} held-out pairs of {one.anchors:,} anchors."
    return Table(heads, rows, f"{caption} Bold: the discriminator.", "lrrrrr", frozenset({0}))
