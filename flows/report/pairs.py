"""The models' cosines of pairs that people scored: densities by score, and errors.

False positives and negatives are counted as in GCSE (figure 1 and appendix I).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tercet.flows.pages import charts, spaces
from tercet.flows.pages.blocks import Block, Chart, Grid, Note, Section, Table
from tercet.flows.results.subject import Row, Subject

FAR = 0.2  # GCSE, figure 1
GRID = 141
MOST = 50_000
_PREFERRED = ("STS-B dev", "STS-B", "SICK-R dev", "SICK-R")
_SCALES = {"SICK-R": (1.0, 5.0), "SICK-R dev": (1.0, 5.0)}

Floats = npt.NDArray[np.float64]


def density(subjects: Sequence[Subject]) -> Section:
    """The distribution of cosines for each gold score."""
    title = "Cosine by gold score"
    task, having, missing = _choose_task(subjects)
    if task is None:
        return Section(title, missing)
    models = _read_cosines(having, task, len(subjects) > 1)
    low = min((float(values.min()) for _, _, values in models), default=0.0)
    domain = (max(-1.0, np.floor(low * 10) / 10), 1.0)
    shown: list[Block] = []
    for name, gold, values in models:
        rows, labels = _curves(gold, values, domain)
        spec = spaces.densities(rows, labels, domain=domain)
        medians = ", ".join(f"{label['label']}: {label['median']:.2f}" for label in labels)
        alt = f"Density of the cosine of {name} by gold score. Median cosines by score: {medians}."
        shown.append(Chart(spec, f"Median cosine by score: {medians}.", alt, name.capitalize()))
    caption = (
        f"Pairs of {task}, grouped by the score that people gave (rounded; the number at each "
        "peak). The better the curves are separated and ordered, the better the model ranks. Where "
        "curves overlap, the model cannot distinguish their scores."
    )
    return Section(
        title, [Grid(shown, caption, least=22), *missing], f"The models' cosines on {task}."
    )


def false_pairs(subjects: Sequence[Subject]) -> Section:
    """False positives and negatives on STS-B dev."""
    title = "False positives and negatives"
    task, having, missing = _choose_task(subjects)
    if task is None:
        return Section(title, missing)
    counted: list[Row] = []
    rows: list[list[str | int | float | None]] = []
    lacking = []
    for name, gold, values in _read_cosines(having, task, len(subjects) > 1):
        error_counts = errors(gold, values, *_SCALES.get(task, (0.0, 5.0)))
        if error_counts is None:
            lacking.append(name)
            continue
        positives, negatives = error_counts
        for kind, count in (("false positives", positives), ("false negatives", negatives)):
            label = f"{count:,} ({100 * count / len(gold):.1f} %)"
            counted.append({"model": name, "kind": kind, "count": count, "label": label})
        total = positives + negatives
        rows.append([name, positives, negatives, f"{100 * total / len(gold):.1f}", len(gold)])
    blocks: list[Block] = []
    if counted:
        spec = charts.grouped(counted, of="model", kind="kind", amount="count", title="pairs")
        alt = "; ".join(f"{row['model']}: {row['label']} {row['kind']}" for row in counted)
        caption = (
            "Scores are scaled to 0 to 1. Cosines are scaled so that the median over pairs with "
            "the lowest score becomes 0 and that of the highest 1, and are clipped there. Medians "
            "keep single outliers from setting the scale, so that models of different spread can "
            f"be compared. A pair more than {FAR} from its score is an error: a false positive if "
            "the model rates it above people, a false negative if below."
        )
        blocks.append(Chart(spec, caption, f"Counts on {task}. {alt}."))
        heads = ["model", "false positives", "false negatives", "both, %", "pairs"]
        blocks.append(Table(heads, rows, "", "lrrrr"))
    for name in lacking:
        text = f"{name.capitalize()}: {task} has no pairs of the lowest or of the highest score."
        blocks.append(Note(text, "missing"))
    lead = f"Where the model and people disagree on {task} (figure 1 of the GCSE paper)."
    if task != "STS-B dev":
        lead += " The paper's figure is on STS-B dev: add `dev` to `evaluate.splits`."
    return Section(title, [*blocks, *missing], lead)


def errors(gold: Floats, values: Floats, lowest: float, highest: float) -> tuple[int, int] | None:
    """False positives and false negatives; None if no pair has the lowest or highest score."""
    bottom, top = values[gold == lowest], values[gold == highest]
    if not len(bottom) or not len(top):
        return None
    low, high = float(np.median(bottom)), float(np.median(top))
    if high <= low:
        return None
    scaled = np.clip((values - low) / (high - low), 0.0, 1.0)
    apart = scaled - (gold - lowest) / (highest - lowest)
    return int((apart > FAR).sum()), int((apart < -FAR).sum())


_MISSING = (
    "No scored pairs were evaluated: set `evaluate.suite` in the recipe to a directory with STS-B "
    "and SICK in SentEval's layout, and `evaluate.splits: [dev, test]` for STS-B dev."
)


def _choose_task(subjects: Sequence[Subject]) -> tuple[str | None, list[Subject], list[Block]]:
    """The task to show (STS-B dev, or else the next best), the runs that have items of it,
    and a note for each run that does not.
    """
    tasks: list[set[str]] = []
    for subject in subjects:
        query = "SELECT DISTINCT task FROM evaluation_items WHERE suite = 'sts'"
        tasks.append({row["task"] for row in subject.rows(query)})
    common = set.intersection(*([names for names in tasks if names] or [set()]))
    task = next((task for task in _PREFERRED if task in common), None)
    having = [s for s, names in zip(subjects, tasks, strict=True) if task in names]
    named = (f"Run {s.name}: " if len(subjects) > 1 and having else "" for s in subjects)
    notes: list[Block] = [
        Note(name + _MISSING, "missing")
        for name, subject in zip(named, subjects, strict=True)
        if subject not in having
    ]
    return task, having, notes if having else notes[:1]


def _read_cosines(
    subjects: Sequence[Subject], task: str, several: bool
) -> list[tuple[str, Floats, Floats]]:
    """Name, scores and cosines of each model: the untouched model, then trained models."""
    models: list[tuple[str, Floats, Floats]] = []
    shown: set[str] = set()
    for subject in subjects:
        versions = subject.rows(
            "SELECT model_version, min(phase) AS phase, min(seed) AS seed FROM evaluations "
            "WHERE phase IN ('base', 'encoder') "
            "GROUP BY model_version ORDER BY min(phase) <> 'base', min(seed)"
        )
        trained = False
        for version in versions:
            base = version["phase"] == "base"
            # Only the first of several seeds is shown; two runs may share the untouched model.
            if version["model_version"] in shown or (trained and not base):
                continue
            items = subject.connection.execute(
                "SELECT gold, value FROM evaluation_items WHERE suite = 'sts' AND task = $task "
                f"AND model_version = $version ORDER BY subset, item LIMIT {MOST}",
                {"task": task, "version": version["model_version"]},
            ).fetchnumpy()
            gold, values = (np.ma.filled(items[name], np.nan) for name in ("gold", "value"))
            is_number = np.isfinite(gold) & np.isfinite(values)
            if is_number.any():
                trained = trained or not base
                names_run = several and not (base and not shown)
                name = ("before" if base else "after") + (
                    f", run {subject.name}" if names_run else ""
                )
                shown.add(version["model_version"])
                models.append((name, gold[is_number], values[is_number]))
    return models


def _curves(
    gold: Floats, values: Floats, domain: tuple[float, float]
) -> tuple[list[Row], list[Row]]:
    """A density for each rounded score that has at least three pairs, and its peak."""
    at = np.linspace(*domain, GRID)
    rounded = np.floor(gold + 0.5).astype(int)
    rows: list[Row] = []
    labels: list[Row] = []
    for score in np.unique(rounded):
        cosines = values[rounded == score]
        if len(cosines) < 3:
            continue
        height = _kernel(cosines, at)
        rows += [
            {"x": round(float(x), 4), "density": round(float(y), 4), "gold": int(score)}
            for x, y in zip(at, height, strict=True)
        ]
        peak = int(height.argmax())
        labels.append(
            {
                "x": round(float(at[peak]), 4),
                "density": round(float(height[peak]), 4),
                "label": str(score),
                "median": float(np.median(cosines)),
            }
        )
    return rows, labels


def _kernel(values: Floats, at: Floats) -> Floats:
    """Gaussian kernel density; the width is Silverman's rule, at least the grid's."""
    spread = min(float(values.std()), float(np.subtract(*np.percentile(values, [75, 25]))) / 1.34)
    width = max(0.9 * spread * len(values) ** -0.2, 0.012)
    total = np.zeros_like(at)
    for chunk in np.array_split(values, max(1, len(values) // 4096)):
        total += np.exp(-0.5 * ((at[:, None] - chunk) / width) ** 2).sum(axis=1)
    return np.asarray(total / (len(values) * width * np.sqrt(2 * np.pi)))
