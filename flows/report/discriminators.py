"""Discriminators: their figures beside controls, reliability, and what they make of candidates."""

from collections.abc import Sequence

from tercet.flows.pages.blocks import Block, Note, Section, Table
from tercet.flows.pages.redaction import public_path
from tercet.flows.report.subject import Subject
from tercet.flows.results.discriminators import ARMS, Judged, in_words, judged

Cells = list[str | int | float | None]

# Every candidate of which a probability says anything, by who wrote it.
_VERDICTS = """
SELECT s.scorer, coalesce(g.model, 'rule') AS generator, c.method, c.role, count(*) AS candidates,
    avg(CASE c.role WHEN 'positive' THEN s.value ELSE 1 - s.value END) AS mean_p,
    count(*) FILTER (r.reason = 'below_p_min') AS improbable,
    count(*) FILTER (r.row_id IS NULL) AS used
FROM candidates c JOIN scores s ON s.candidate_id = c.candidate_id AND s.measure = 'p_true'
LEFT JOIN generations g USING (generation_id)
LEFT JOIN rejects r ON r.stage = 'select' AND r.row_id = c.candidate_id
WHERE c.relation IN ('keeps', 'alters') GROUP BY ALL ORDER BY ALL
"""


def discriminators(subjects: Sequence[Subject]) -> Section:
    """For each run its discriminators, and the acceptance by generator and method."""
    blocks: list[Block] = []
    for subject in subjects:
        of_run = f"Run {subject.name}. " if len(subjects) > 1 else ""
        found = judged(subject.connection)
        if not found:
            said = "No discriminator was fitted: `fit_pair` under `models` makes one."
            blocks.append(Note(f"{of_run}{said}", "missing"))
            continue
        for one in found:
            blocks += [_figures(one, of_run), Note(in_words(one))]
            blocks.append(_reliability(subject, one.name, of_run))
        blocks += _verdicts(subject, of_run)
    lead = (
        "How well a discriminator tells which texts follow from a sentence, on anchors that it was "
        "not fitted to, and how it judges the candidates. Texts on the topic are not judged."
    )
    return Section("Discriminators", blocks, lead)


def _figures(one: Judged, of_run: str) -> Table:
    rows: list[Cells] = [
        [
            ARMS[arm],
            _shown(of.auc),
            "" if of.low is None else f"{of.low:.3f} to {of.high:.3f}",
            _shown(of.accuracy, 1),
            _shown(of.calibration_error),
            "" if of.gain is None else "{:+.3f} ({:+.3f} to {:+.3f})".format(*of.gain),
        ]
        for arm, of in one.arms.items()
    ]
    heads = ["judged by", "AUC", "95 % interval", "right, %", "calibration error", "gain over it"]
    caption = f"{of_run}{one.name}, on {one.pairs:,} held-out pairs of {one.anchors:,} anchors."
    return Table(heads, rows, f"{caption} Bold: the discriminator.", "lrrrrr", frozenset({0}))


def _reliability(subject: Subject, name: str, of_run: str) -> Table:
    found = subject.rows(
        "SELECT p_low, p_high, pairs, mean_p, share_true, ci_low, ci_high FROM reliability "
        "WHERE discriminator = $name ORDER BY p_low",
        {"name": name},
    )
    rows: list[Cells] = [
        [
            f"{row['p_low']:.2f} to {row['p_high']:.2f}",
            row["pairs"],
            _shown(row["mean_p"]),
            _shown(row["share_true"]),
            "" if row["ci_low"] is None else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}",
        ]
        for row in found
    ]
    heads = ["P(true)", "pairs", "said on average", "true", "95 % interval"]
    caption = f"{of_run}Reliability of {name}: held-out pairs by the probability that it gave them."
    return Table(heads, rows, caption, "lrrrr")


def _verdicts(subject: Subject, of_run: str) -> list[Block]:
    decides = (subject.recipe.get("select") or {}).get("p_true")
    rows: list[Cells] = []
    for row in subject.rows(_VERDICTS):
        own: Cells = [row["scorer"], public_path(row["generator"]), row["method"], row["role"]]
        own += [row["candidates"], _shown(row["mean_p"])]
        # Of several scorers one decides: the others have refused nothing.
        rows.append(
            [*own, row["improbable"], row["used"]]
            if decides in (None, row["scorer"])
            else [*own, None, None]
        )
    if not rows:
        return [Note(f"{of_run}No scorer has judged the candidates.", "missing")]
    heads = [
        "judged by",
        "written by",
        "method",
        "role",
        "candidates",
        "mean P(role)",
        "below p_min",
        "in triplets",
    ]
    caption = f"{of_run}Candidates that keep or alter the meaning."
    return [Table(heads, rows, caption, "llllrrrr")]


def _shown(value: float | None, digits: int = 3) -> str | None:
    return None if value is None else f"{value:.{digits}f}"
