"""The results: before and after, the seeds, the space; questions, entries, generators, judges."""

from collections.abc import Sequence

from tercet.flows.formatting import format_number, format_range
from tercet.flows.pages import charts, spaces
from tercet.flows.pages.blocks import Block, Cell, Chart, Fold, Grid, Note, Section, Table
from tercet.flows.recipe.secrets import public_values
from tercet.flows.report.subject import Row, Subject, of_each_run
from tercet.flows.results import figures
from tercet.flows.results.figures import (
    GENERATOR_LABELS,
    JUDGE_ARMS,
    Figure,
    Judged,
    judged,
    of_geometry,
    of_tasks,
    read_choice,
    read_figures,
    seeds,
)
from tercet.flows.results.figures import gains_in_words as gains_in_words
from tercet.flows.results.figures import judged_in_words as judged_in_words
from tercet.flows.results.figures import measured_generators as measured_generators
from tercet.flows.results.first_look import read_questions
from tercet.flows.results.metric_names import TOO_FEW, WHY_TOO_FEW

NOTHING = (
    "Nothing was evaluated: the run has not reached the stage `evaluate`, or it has neither "
    "document pairs (`evaluate.retrieval`), nor halves (`evaluate.halves`), nor labels, nor a "
    "suite (`evaluate.suite`), nor files of one's own (`evaluate.retrieval_sets`, "
    "`evaluate.sts_sets`, `evaluate.fact_order`)."
)


def before_and_after(subjects: Sequence[Subject]) -> Section:
    """Figures of the untouched and the trained model, with intervals of the gains."""
    title = "Before and after"
    several = len(subjects) > 1
    rows: list[Row] = []
    tables: list[Block] = []
    missing: list[Block] = []
    notes: list[Block] = []
    for subject in subjects:
        found = of_tasks(read_figures(subject.connection))
        if not found:
            named = f"Run {subject.name}: " if several else ""
            missing.append(Note(named + NOTHING, "missing"))
            continue
        choice = read_choice(subject.connection, subject.recipe.get("seed"))
        if choice is not None:
            notes.append(Note(f"Run {subject.name}: {choice}" if several else f"{choice}"))
        rows += [row for figure in found if (row := _gain_row(figure, subject)) is not None]
        tables += _tables(found, f"Run {subject.name}. " if several else "")
    blocks: list[Block] = []
    if rows:
        spec = charts.intervals(rows, title="gain in points")
        alt = "Gains with 95 % intervals. " + "; ".join(f"{r['name']}: {r['said']}" for r in rows)
        marks = "" if several else " A grey square marks one that includes zero, a circle others."
        caption = (
            "The gain over the untouched model in points, with its 95 % interval. If the interval "
            f"includes zero, no difference is shown.{marks}"
        )
        blocks.append(Chart(spec, caption, alt))
    blocks += [*notes, *tables, *missing]
    lead = (
        "The trained encoder against the untouched backbone on the same data. Intervals of gains "
        "are paired: both models saw the same queries and pairs."
    )
    return Section(title, blocks, lead)


def _gain_row(figure: Figure, subject: Subject) -> Row | None:
    gain, low, high = figure.gain()
    if gain is None or low is None or high is None or not figure.headline:
        return None
    return {
        "name": figure.name,
        "run": subject.name,
        "gain": gain,
        "low": low,
        "high": high,
        "said": f"{format_number(gain, sign='+')} ({format_range(low, high, sign='+')})",
        "clear": low > 0 or high < 0,
    }


def _tables(found: Sequence[Figure], of_run: str) -> list[Block]:
    first = [figure for figure in found if figure.headline]
    rest = [figure for figure in found if not figure.headline]
    caption = (
        of_run + "In percent, gains in points. Bold: the interval of the gain excludes zero. n: "
        "queries, pairs or examples."
    )
    if any(figure.few for figure in found):
        caption += f" {WHY_TOO_FEW}"
    blocks: list[Block] = [_table(first or rest, caption)]
    if first and rest:
        blocks.append(
            Fold(
                f"{len(rest)} more: single files, kinds of change and other averages",
                [_table(rest)],
            )
        )
    return blocks


def _table(found: Sequence[Figure], caption: str = "") -> Table:
    rows: list[list[Cell]] = []
    strong = set()
    for place, figure in enumerate(found):
        gain, low, high = figure.gain()
        after = figure.mean()
        if low is not None and high is not None and (low > 0 or high < 0):
            strong.add(place)
        one = figure.first or figure.before
        rows.append(
            [
                # The gain beside the name, where a phone shows it.
                figure.name,
                format_number(gain, sign="+"),
                TOO_FEW if figure.few and not figure.fixed else format_range(low, high, sign="+"),
                None if figure.before is None else f"{figure.before.value:.2f}",
                None if after is None else f"{after:.2f}",
                None if one is None else one.n,
                figure.metric.suite,
                None if one is None else one.text_form or None,
                None if one is None else (one.digest or "")[:8] or None,
            ]
        )
    heads = ["figure", "gain", "its 95 % interval", "before", "after", "n", "suite", "text", "data"]
    return Table(heads, rows, caption, "lrrrrrlll", frozenset(strong))


@of_each_run(
    "Seeds",
    "Trained with fewer than two seeds: `seeds: 5` in the recipe trains and evaluates five.",
    "The same recipe, trained with other random numbers.",
)
def over_seeds(subject: Subject) -> list[Block]:
    """The spread of the figures over seeds."""
    from tercet.models.measures import resampling

    found = of_tasks(read_figures(subject.connection))
    count = len(seeds(found))
    if count < 2:
        return []
    points: list[Row] = []
    rows: list[list[Cell]] = []
    for figure in found:
        values = figure.values()
        if len(values) < 2 or not figure.headline:
            continue
        over = resampling.summarise_seeds(list(values.values()))
        ends = TOO_FEW if figure.few else format_range(over.low, over.high)
        rows.append([figure.name, f"{over.mean:.2f}", format_number(over.sd), ends, over.n])
        points += [
            {"name": figure.name, "seed": str(seed), "value": value - over.mean}
            for seed, value in values.items()
        ]
    spec = charts.strip(points, title="points from the mean over seeds")
    alt = f"Each seed's distance from the mean of {count} seeds, by figure."
    caption = (
        "Each mark is one training; its shape shows the seed. A gain smaller than this spread is "
        "no evidence for a recipe."
    )
    heads = ["figure", "mean", "sd", "95 % interval of the mean", "seeds"]
    table = Table(heads, rows, "Student's t over the seeds' trainings.", "lrrrr")
    return [Chart(spec, caption, alt, f"{count} seeds"), table]


def space(subjects: Sequence[Subject]) -> Section:
    """Alignment against uniformity, before and after."""
    title = "Alignment and uniformity"
    several = len(subjects) > 1
    points: list[Row] = []
    moves: list[Row] = []
    rows: list[list[Cell]] = []
    for place, subject in enumerate(subjects):
        found = of_geometry(read_figures(subject.connection))
        sets = dict.fromkeys((f.metric.task, f.metric.subset) for f in found)
        for texts in sets:
            mine = {f.metric.name: f for f in found if (f.metric.task, f.metric.subset) == texts}
            name = f"{texts[0].replace('_', ' ')} {texts[1]}".removesuffix(" all")
            name += next(iter(mine.values())).mark
            base = {m: f.before.value for m, f in mine.items() if f.before is not None}
            made = {m: mean for m, f in mine.items() if (mean := f.mean()) is not None}
            after = f"after, run {subject.name}" if several else "after"
            for model, values in (("before", base), (after, made)):
                # Two runs usually start from the same model: it is shown once.
                if {"alignment", "uniformity"} <= set(values):
                    # A dev set's mark is close to its test set's, whose label is enough.
                    labelled = model == "before" and not place and not texts[0].endswith(" dev")
                    point = {"model": model, "texts": name, "labelled": labelled, **values}
                    points.append(point)
                    if not (model == "before" and place):
                        told = [values.get(m) for m in ("alignment", "uniformity", "isotropy")]
                        said = [format_number(value, 3) for value in told]
                        rows.append([name, model, *said])
            if {"alignment", "uniformity"} <= set(base) & set(made):
                moves.append({**base, **{f"{m}_after": value for m, value in made.items()}})
    if not points:
        return Section(title, [Note(NOTHING, "missing")])
    spec = spaces.ways(sorted(points, key=lambda point: point["model"] != "before"), moves)
    alt = "Alignment against uniformity: " + "; ".join(
        f"{p['texts']} {p['model']}: {p['alignment']:.3f}, {p['uniformity']:.3f}" for p in points
    )
    caption = (
        "Lower left is better. Alignment is the mean squared distance between texts that belong "
        "together; uniformity measures, on a log scale, how crowded the sphere is. The dotted line "
        "leads from the untouched model to the trained one on the same texts."
    )
    table = Table(
        ["texts", "model", "alignment", "uniformity", "isotropy"],
        rows,
        "Isotropy: how evenly the directions are used, if measured.",
        "llrrr",
    )
    blocks = [Grid([Chart(spec, caption, alt), table], least=24)]
    return Section(
        title,
        blocks,
        "Where a gain comes from: are pairs closer together, or all other texts further apart?",
    )


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
        blocks += [_figures(one), Note(judged_in_words(one))]
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
            JUDGE_ARMS[arm],
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


@of_each_run(
    "Generators",
    "No generator was measured: `measure_generators` names the pairs for it.",
    "The generators' texts beside controls that anyone could make: the human's own text, a copy, "
    "and words replaced, deleted or shuffled at random, or exchanged for synonyms. In percent, "
    "except the perplexity.",
)
def generators(subject: Subject) -> list[Block]:
    """The run's generators, then the controls on the same pairs."""
    found = measured_generators(subject.connection)
    if found is None:
        return []
    table = Table(
        ["texts", *GENERATOR_LABELS.values()],
        [
            [name, *(format_number(value, 1) for value in values)]
            for name, values in [*found.generators.items(), *found.controls.items()]
        ],
        f"On {found.pairs:,} pairs. Bold: generators.",
        "l" + "r" * len(GENERATOR_LABELS),
        frozenset(range(len(found.generators))),
    )
    return [table, *(Note(gains_in_words(name, gains)) for name, gains in found.gains.items())]


# Of very many questions, those at both ends.
_SHOWN = 200


@of_each_run(
    "Questions one by one",
    "The recipe names no questions (`evaluate.retrieval_sets`), or they are not measured yet.",
    "The rank of the best answer to each question among all passages, files or documents: by the "
    "encoder before and after training, by words (BM25), and by BM25 and the trained encoder "
    "together.",
)
def questions(subject: Subject) -> list[Block]:
    """A table of the questions, those that gained most first."""
    answered = read_questions(subject.connection, subject.recipe["seed"])
    if not answered:
        return []
    half = _SHOWN // 2
    shown = answered
    if len(answered) > _SHOWN:
        shown = [*answered[:half], *answered[-half:]]
    rows: list[list[Cell]] = [
        [
            row["query"],
            format_number(row["gain"], 1, sign="+"),
            *(row[way] for way in ("before", "after", "bm25", "both")),
            row["first_after"] if row["after"] != 1 else None,
            row["task"],
        ]
        for row in shown
    ]
    which = "" if shown is answered else f"The first and last {half} of {len(answered):,}. "
    caption = (
        f"{which}Gain: of nDCG@10, in points. A rank that is missing: not among the first 1,000."
    )
    heads = ["question", "gain", "before", "after", "BM25", "both", "came first instead", "set"]
    return [Table(heads, rows, caption, "lrrrrrll")]


# Each seed has a space of the same name: the figures are averaged, the points are the first's.
_FIGURES = """
SELECT name, metric, avg(value) AS value FROM entry_spaces WHERE NOT ends_with(name, '.own')
GROUP BY ALL ORDER BY name
"""
_POINTS = """
SELECT * REPLACE (left(text, 60) AS text) FROM entry_points
QUALIFY rank() OVER (PARTITION BY name ORDER BY seed) = 1 ORDER BY name, entry_id
"""
# Where the entries lie in a cone, the first singular direction is little but their mean.
_AXES = {
    "two largest singular directions (SVD)": ("x", "y"),
    "two first principal components (PCA, around the mean)": ("pca_x", "pca_y"),
}
_COLUMNS = {"entries": 0, "definitions": 0, "isotropy": 4, "mean_cosine": 3, "deviation": 3}
_COLUMNS["ica_rounds"] = 0


@of_each_run(
    "Entries",
    "No phase trains against the entries of a dictionary (loss `definition`).",
    "Definitions are trained to find their entries, whose vectors come from the encoder of the "
    "previous step. The more evenly these vectors spread over all directions (isotropy near 1, "
    "mean cosine near 0), the easier it is to tell one definition from another.",
)
def entries(subject: Subject) -> list[Block]:
    """A table of the spaces' figures, and each space along its first two directions."""
    found = subject.rows(_FIGURES)
    if not found:
        return []
    names = list(dict.fromkeys(row["name"] for row in found))
    values = {(row["name"], row["metric"]): row["value"] for row in found}
    rows: list[list[Cell]] = [
        [name, *(_rounded(values.get((name, key)), digits) for key, digits in _COLUMNS.items())]
        for name in names
    ]
    titles = ["phase", *(key.replace("_", " ") for key in _COLUMNS)]
    caption = "The entries that each phase trains against."
    points = subject.rows(_POINTS)
    charts: list[Block] = [
        _cloud(name, [p for p in points if p["name"] == name], axes)
        for name in names
        for axes in _AXES
    ]
    table = Table(titles, rows, caption, "l" + "r" * len(_COLUMNS))
    return [table, *_found(subject), Grid(charts, least=18)]


def _found(subject: Subject) -> list[Block]:
    """A table of what held-out definitions find; none where none was held out."""
    measured_generators = figures.defined(subject.connection)
    if not measured_generators:
        return []
    rows: list[list[Cell]] = [
        [
            one.name,
            figures.DEFINITION_ARMS[arm],
            *(round(values[key][0], 1) for key in figures.DEFINITION_METRICS),
        ]
        for one in measured_generators
        for arm, values in one.figures.items()
    ]
    counts = ", ".join(f"{one.definitions:,} of {one.name}" for one in measured_generators)
    caption = (
        f"How well held-out definitions find their entries ({counts}), in percent. "
    ) + " ".join(
        f"{one.name}: {figures.defined_in_words(one)}" for one in measured_generators if one.gains
    )
    titles = ["phase", "", *figures.DEFINITION_METRICS.values()]
    return [Table(titles, rows, caption, "ll" + "r" * len(figures.DEFINITION_METRICS))]


def _cloud(name: str, points: Sequence[Row], axes: str) -> Chart:
    x, y = _AXES[axes]
    rows = [{"text": p["text"], "x": round(p[x], 3), "y": round(p[y], 3)} for p in points]
    caption = f"{len(rows):,} entries of {name}, along the {axes}."
    return Chart(spaces.scatter(rows), caption, f"Entries of {name} in a plane: {axes}.", name)


def _rounded(value: float | None, digits: int) -> float | int | None:
    if value is None:
        return None
    return round(value, digits) if digits else round(value)
