"""From the corpus to the triplets: the funnel, reasons for rejects, the scores, the graph."""

from collections.abc import Sequence

from tercet.flows.formatting import count_of, format_number
from tercet.flows.pages import charts, spaces
from tercet.flows.pages.blocks import Block, Chart, Fold, Grid, Note, Section, Table
from tercet.flows.recipe.names import count_apart
from tercet.flows.results.measure import FIRST
from tercet.flows.results.measures import ACCEPTANCE, FUNNEL
from tercet.flows.results.subject import SHIPPED, Row, Subject, of_each_run
from tercet.tasks.reasons import BY_THRESHOLD, reason_of

BIN = 0.025
FIRST_REASONS = 12


def counts(subject: Subject) -> dict[str, int]:
    """Row counts on the way from documents to triplets."""
    table = FUNNEL.read(subject)
    assert table is not None
    return {row["what"]: row["rows"] for row in table.rows if row["depth"] == FIRST}


def funnel(subjects: Sequence[Subject]) -> Section:
    """From the corpus to the triplets, and why rows were dropped on the way."""
    shown: list[Block] = []
    for subject in subjects:
        values: list[Row] = [
            {"what": name, "rows": count, "label": f"{count:,}"}
            for name, count in counts(subject).items()
        ]
        spec = charts.bars(values, of="what", amount="rows", title="rows")
        alt = "; ".join(f"{value['what']} {value['label']}" for value in values)
        title = f"Run {subject.name}" if len(subjects) > 1 else ""
        by_corpus = subject.rows("SELECT corpus, count(*) AS n FROM documents GROUP BY corpus")
        apart = count_apart({row["corpus"]: row["n"] for row in by_corpus}, subject.shipped)
        caption = f"{apart}." if apart else ""
        shown.append(Chart(spec, caption, f"Bars with row counts: {alt}.", title))
    blocks: list[Block] = [Grid(shown, FUNNEL.caption, least=24)]
    blocks += [*_reasons(subjects)]
    return Section(FUNNEL.title, blocks, FUNNEL.lead)


def _reasons(subjects: Sequence[Subject]) -> list[Block]:
    by_reason: dict[tuple[str, str], dict[str, int]] = {}
    for subject in subjects:
        for row in subject.rows(
            "SELECT stage, reason, count(*) AS rows FROM rejects GROUP BY stage, reason"
        ):
            by_reason.setdefault((row["stage"], row["reason"]), {})[subject.name] = row["rows"]
    if not by_reason:
        return [Note("No rows have been dropped so far.", "missing")]
    totals: dict[str, int] = {}
    for (stage, _), by_run in by_reason.items():
        totals[stage] = totals.get(stage, 0) + sum(by_run.values())
    ordered = sorted(by_reason.items(), key=lambda entry: -sum(entry[1].values()))
    heads = ["stage", "reason", "what it means"]
    heads += ["rows"] if len(subjects) == 1 else [f"rows, {one.name}" for one in subjects]
    heads += ["% of the stage's"] if len(subjects) == 1 else []
    rows: list[list[str | int | float | None]] = []
    for (stage, reason), by_run in ordered:
        numbers: list[int | str] = [by_run.get(subject.name, 0) for subject in subjects]
        if len(subjects) == 1:
            numbers.append(f"{100 * sum(by_run.values()) / totals[stage]:.1f}")
        rows.append([stage, reason, reason_of(reason, stage).text, *numbers])
    align = "lll" + "r" * (len(heads) - 3)
    first = Table(
        heads, rows[:FIRST_REASONS], "The most frequent reasons for dropping a row.", align
    )
    if len(rows) <= FIRST_REASONS:
        return [first]
    rest = Table(heads, rows[FIRST_REASONS:], "", align)
    return [first, Fold(count_of(len(rows) - FIRST_REASONS, "rarer reason"), [rest])]


def scores(subjects: Sequence[Subject]) -> Section:
    """The distribution of the evaluator's cosines by method, with the thresholds."""
    title = "Scores by method"
    methods: dict[tuple[str, str], list[tuple[Subject, Row]]] = {}
    for subject in subjects:
        for row in subject.rows("FROM acceptance ORDER BY role DESC, method"):
            methods.setdefault((row["role"], row["method"]), []).append((subject, row))
    if not methods:
        return Section(title, [Note(ACCEPTANCE.absent, "missing")])
    tables: list[Block] = []
    for subject in subjects:
        if (table := ACCEPTANCE.read(subject)) is not None:
            tables += table.on_page(f"Run {subject.name}." if len(subjects) > 1 else "")
    bins = {subject.name: _bins(subject) for subject in subjects}
    starts = [row["start"] for run_bins in bins.values() for row in run_bins]
    if not starts:
        return Section(title, tables, _BY_A_JUDGE)
    domain = (min([0.0, *starts]), 1.0)
    shown: dict[str, list[Block]] = {}
    for (role, method), accepted in methods.items():
        chart = _method_chart(role, method, accepted, bins, domain, len(subjects) > 1)
        shown.setdefault(role, []).append(chart)
    blocks: list[Block] = []
    for role, method_charts in shown.items():
        blocks += [Note(f"{role.capitalize()}s", "head"), Grid(method_charts, least=15)]
    blocks += tables
    bounds = (
        "Blue bars are within the threshold (the dashed line), orange ones beyond it. "
        if len(subjects) == 1
        else "Lines: run A solid, run B dashed; the upright dashed lines are thresholds. "
    )
    lead = (
        f"{bounds}A positive must be close enough to its anchor, a negative far enough from it; a "
        "hard negative is one that the evaluator still rates as close."
    )
    return Section(title, blocks, lead)


_BY_A_JUDGE = "No candidate has a cosine: a judge's probability decided alone (`select.p_min`)."


def _bins(subject: Subject) -> list[Row]:
    """Counts by role, method, bin and outcome; a cosine of exactly 1 is in the last bin."""
    listed = ", ".join(f"'{reason}'" for reason in BY_THRESHOLD)
    return subject.rows(
        f"""
        WITH refused AS (
            SELECT DISTINCT row_id FROM rejects WHERE stage = 'select' AND reason IN ({listed})
        )
        SELECT c.role, c.method,
            round(floor(least(v.value, 0.99999) / {BIN}) * {BIN}, 4) AS start,
            CASE WHEN r.row_id IS NULL THEN 'within the threshold' ELSE 'beyond it' END AS outcome,
            count(*) AS count
        FROM scores v
        JOIN candidates c USING (candidate_id)
        LEFT JOIN refused r ON r.row_id = c.candidate_id
        WHERE v.measure = 'similarity' AND isfinite(v.value)
        GROUP BY ALL
        ORDER BY ALL
        """
    )


def _method_chart(
    role: str,
    method: str,
    accepted: Sequence[tuple[Subject, Row]],
    bins: dict[str, list[Row]],
    domain: tuple[float, float],
    several: bool,
) -> Chart:
    thresholds: list[Row] = []
    rows: list[Row] = []
    words: list[str] = []
    for subject, counts in accepted:
        if counts["threshold"] is not None:
            thresholds.append({"at": counts["threshold"], "run": subject.name})
        method_bins = [b for b in bins[subject.name] if (b["role"], b["method"]) == (role, method)]
        total = sum(b["count"] for b in method_bins) or 1
        rows += [{**b, "run": subject.name, "share": 100 * b["count"] / total} for b in method_bins]
        median, bound = (
            format_number(counts[name]) or "–" for name in ("similarity_median", "threshold")
        )
        words.append(
            (f"run {subject.name}: " if several else "")
            + f"{counts['accepted']:,} of {counts['candidates']:,} accepted, "
            f"median cosine {median}, threshold {bound}"
        )
    alt = f"Distribution of the cosine of {method}, a {role}: {'; '.join(words)}."
    if several:
        merged = spaces.shares(_sum_outcomes(rows), threshold=thresholds, domain=domain)
        return Chart(merged, _capitalised("; ".join(words)) + ".", alt, method)
    spec = spaces.histogram(rows, threshold=thresholds, domain=domain, width=BIN)
    return Chart(spec, _capitalised(words[0]) + ".", alt, method)


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sum_outcomes(rows: Sequence[Row]) -> list[Row]:
    """One row per run and bin over all outcomes; empty bins in between are 0."""
    shares: dict[tuple[str, int], float] = {}
    for row in rows:
        key = (row["run"], round(row["start"] / BIN))
        shares[key] = shares.get(key, 0.0) + row["share"]
    if not shares:
        return []
    places = [place for _, place in shares]
    return [
        {"run": run, "start": round(place * BIN, 4), "share": shares.get((run, place), 0.0)}
        for run in sorted({run for run, _ in shares})
        for place in range(min(places), max(places) + 2)
    ]


_ENTITIES = 12
_NEIGHBOURS = 8

_WHOLE = """
nodes AS (SELECT node_id, text, count FROM kg_nodes WHERE kind = 'entity'),
soft AS (
    SELECT e.source, e.target, e.count FROM kg_edges e SEMI JOIN nodes n ON n.node_id = e.target
    WHERE e.kind = 'soft'
)"""
# Nodes and soft edges from the user's sentences alone, without shipped sentences.
_OWN = f"""
{SHIPPED}, own AS (
    SELECT sentence_id, node_id, count(*) AS times FROM mentions
    WHERE kind = 'entity' AND sentence_id NOT IN (FROM shipped) GROUP BY ALL
), nodes AS (
    SELECT node_id, any_value(n.text) AS text, sum(times)::BIGINT AS count
    FROM own JOIN kg_nodes n USING (node_id) GROUP BY node_id
), soft AS (
    SELECT a.node_id AS source, b.node_id AS target, count(*) AS count
    FROM own a JOIN own b ON a.sentence_id = b.sentence_id AND a.node_id <> b.node_id
    GROUP BY ALL
)"""
# The entities with the most neighbours, each with its nearest neighbours. Nearness is the number of
# common sentences, divided by the root of the neighbour's mentions, since frequent entities share
# sentences with everything.
_QUERY = f"""
WITH {{graph}}, hubs AS (
    SELECT source, count(*) AS neighbours FROM soft
    GROUP BY source ORDER BY neighbours DESC, source LIMIT {_ENTITIES}
), ranked AS (
    SELECT h.source, h.neighbours, n.text, s.count, row_number() OVER (
        PARTITION BY h.source ORDER BY s.count / sqrt(n.count) DESC, n.text
    ) AS place
    FROM hubs h JOIN soft s ON s.source = h.source JOIN nodes n ON n.node_id = s.target
), types AS (
    SELECT h.source, arg_max(t.text, e.count) AS type
    FROM hubs h JOIN kg_edges e ON e.source = h.source AND e.kind = 'hard'
    JOIN kg_nodes t ON t.node_id = e.target AND t.kind = 'type' GROUP BY h.source
)
SELECT n.text AS entity, any_value(y.type) AS type, n.count AS mentions, r.neighbours,
    string_agg(r.text || ' (' || r.count || ')', ', ' ORDER BY r.place)
        AS "beside it (sentences in common)"
FROM ranked r JOIN nodes n ON n.node_id = r.source LEFT JOIN types y ON y.source = r.source
WHERE r.place <= {_NEIGHBOURS}
GROUP BY n.text, n.count, r.neighbours, r.source ORDER BY r.neighbours DESC, n.text
"""


@of_each_run(
    "Knowledge graph",
    "This run has made no knowledge graph.",
    "What the corpus is about: entity swaps come from here. `tercet export graph FILE.graphml` "
    "writes all of it for Gephi.",
)
def neighbourhoods(subject: Subject) -> list[Block]:
    """The most connected entities of the knowledge graph and their neighbours."""
    caption = "The entities that share a sentence with the most others"
    if subject.shipped:
        values = {"shipped": subject.shipped}
        own_caption = f"{caption} in your own texts."
        own_blocks = subject.table(_QUERY.format(graph=_OWN), own_caption, "llrrl", values)
        if own_blocks:
            return own_blocks
    return subject.table(_QUERY.format(graph=_WHOLE), f"{caption}.", "llrrl")
