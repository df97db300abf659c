"""Warnings of `judgements` and `evaluate`: rows, cut texts, ceilings, losses."""

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from tercet.models.encoders.settings import has_sides
from tercet.storage.rows import Rows, quoted
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.evaluation.evaluation_rows import DOCUMENT_PAIRS, HALVES
from tercet.tasks.evaluation.judgements import NOTES
from tercet.tasks.evaluation.suites.beir import BM25, HYBRID
from tercet.tasks.evaluation.suites.beir import SUITE as RETRIEVAL_SETS
from tercet.tasks.stage import Work, ask
from tercet.tasks.warning import StageWarning, find_cut

# In percent, of the untouched model: what is left above it is less than most gains.
CEILING = 95.0
# A figure of fewer questions tells a gain from chance no better than a coin.
FEW = 30
_MEASURES = "('recall@1', 'ndcg@10', 'accuracy', 'spearman', 'map', 'ap')"


def find_evaluate(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """Of the untouched model, faults of the measures; of the trained one, what got worse."""
    config: EvaluateConfig = work.config
    if "baseline" not in work.inputs:
        yield from _unusable(work, made)
        yield from _absent(work, made)
        yield from _at_ceiling(work, made)
        yield from _cut(work)
        yield from _without_sides(work, made)
    elif config.phase == "encoder" and config.model_seed is None:
        yield from _worse(work, made)


def _unusable(work: Work, made: Rows) -> Iterator[StageWarning]:
    """Rows of files of graded pairs, told once: by the measure before the training."""
    for name in work.config.sts_sets:
        lost = f"SELECT count(*), min(detail) FROM {made.sql('rejects')}"
        ((count, example),) = ask(work, f"{lost} WHERE starts_with(detail, ?)", [f"{name}: row "])
        ((used,),) = ask(
            work,
            f"""SELECT coalesce(sum(n), 0)::BIGINT FROM {made.sql("evaluations")}
            WHERE suite = 'sts_sets' AND task IN (?, ?) AND metric = 'spearman'""",
            [name, f"{name} dev"],
        )
        if count:
            fault, remedy = example.removeprefix(f"{name}: "), "correct them in its file"
            said = f"{count:,} of {count + used:,} rows of {name} cannot be used"
            yield StageWarning("unusable", name, count, count + used, said, remedy, fault)


def _absent(work: Work, made: Rows) -> Iterator[StageWarning]:
    """Judged documents that a retrieval set lacks: no encoder finds them."""
    found = ask(
        work,
        f"""SELECT DISTINCT detail, replace(regexp_extract(detail, ': ([0-9,]+) ', 1), ',', '')
        FROM {made.sql("rejects")} WHERE reason = 'no_document' ORDER BY ALL""",
    )
    for said, count in found:
        name, number = said.split(": ")[0], int(count)
        remedy = "add them to corpus.jsonl, or take their lines out of qrels"
        yield StageWarning("no_document", name, number, number, said, remedy)


def _cut(work: Work) -> Iterator[StageWarning]:
    """Pairs that are longer than `evaluate.max_length`; the model's own is not known here."""
    config: EvaluateConfig = work.config
    splits = ", ".join(map(quoted, config.splits))
    for slot, table in ((DOCUMENT_PAIRS, DOCUMENT_PAIRS), (HALVES, "questions")):
        measured = slot == HALVES or config.retrieval
        if config.max_length is not None and measured and slot in work.inputs:
            rows = f"{work.inputs[slot].sql(table)} WHERE split IN ({splits})"
            which = f"texts of {slot.replace('_', ' ')}"
            columns = ("query", "answer")
            yield from find_cut(work, slot, columns, rows, config.max_length, which, "evaluate")


def _at_ceiling(work: Work, made: Rows) -> Iterator[StageWarning]:
    found = ask(
        work,
        f"""SELECT concat_ws(' ', task, nullif(subset, 'all'), metric), value, n
            FROM {made.sql("evaluations")}
            WHERE metric IN {_MEASURES} AND value >= {CEILING} AND n >= {FEW}
                AND (subset = 'all' OR suite NOT IN ('sts', 'fact_order'))
                AND (suite <> '{RETRIEVAL_SETS}' OR metric = 'ndcg@10'
                    AND NOT regexp_matches(task, ' ({BM25}|{HYBRID})')) ORDER BY ALL""",
    )
    for name, value, n in found:
        said = (
            f"{name.replace('_', ' ')} is {value:.2f} before any training, at its ceiling, where "
        )
        said += "no gain shows"
        remedy = "measure on harder questions, or on more candidates"
        yield StageWarning("ceiling", name, round(value * n / 100), n, said, remedy)


def _without_sides(work: Work, made: Rows) -> Iterator[StageWarning]:
    """An encoder with prompts for a search, of which nothing that is measured is one."""
    if "model" not in work.models or not has_sides(work.models["model"], work.config.prompts):
        return
    ((total, sided),) = ask(
        work,
        f"""SELECT count(*), count(*) FILTER (
            suite IN ('retrieval', 'retrieval_sets') AND task <> '{HALVES}')
        FROM {made.sql("evaluations")}""",
    )
    if total and not sided:
        said = f"the encoder has prompts for queries and documents, and none of {total:,} figures "
        said += "is of a search, so that all are of its default prompt"
        remedy = (
            "name queries of your own under evaluate.retrieval_sets, or the columns `query` and "
        )
        remedy += "`answer` of a corpus"
        yield StageWarning("no_side", None, total, total, said, remedy)


def _worse(work: Work, made: Rows) -> Iterator[StageWarning]:
    """Figures of the user's own questions, graded pairs or labels that got worse."""
    if "choices" in work.inputs and ask(
        work, f"FROM {work.inputs['choices'].sql('choices')} WHERE mix = 0"
    ):
        return  # it is the untouched encoder
    rows = ask(
        work,
        f"""SELECT concat_ws(' ', task, nullif(subset, 'all'), metric), value, ci_low, ci_high, n
            FROM {made.sql("evaluations")}
            WHERE suite IN ('{RETRIEVAL_SETS}', 'sts_sets', 'labels')
                AND metric IN ('ndcg@10_gain', 'spearman_gain', 'accuracy_gain')
                AND NOT ends_with(task, ' dev')
                AND NOT regexp_matches(task, ' ({BM25}|{HYBRID})') AND ci_high < 0 AND n >= {FEW}
            ORDER BY ALL""",
    )
    for name, value, low, high, n in rows:
        name = name.removesuffix("_gain")
        message = f"{name.replace('_', ' ')} got worse: {value:+.2f} points, "
        message += f"95 % interval {low:+.2f} to {high:+.2f}"
        remedy = "keep the untouched encoder, or train less: a lower learning_rate, fewer steps"
        yield StageWarning("worse", name, n, n, message, remedy)


# Rows that are named.
_NAMED = 3


def find_judgements(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """For each table the questions that are left out, or asked without all that answers them, and
    what `NOTES` says of others.
    """
    for name, one in work.config.sets.items():
        rejects = f"SELECT row_id, detail, reason FROM {made.sql('rejects')}"
        rejected = ask(work, f"{rejects} WHERE starts_with(detail, ?)", [f"{name}: row "])
        queries = f"SELECT DISTINCT query_id FROM {made.sql('judgements')} WHERE task = ?"
        queries_asked = {query for (query,) in ask(work, queries, [name])}
        # A row that cannot be read is a question of its own.
        rows = [row for row in rejected if row[2] != "unread"]
        total = len(
            {row_id if row_id is not None else detail for row_id, detail, _ in rows} | queries_asked
        )
        for kind in ("not_found", *NOTES):
            rows = [row for row in rejected if (row[2] if row[2] in NOTES else "not_found") == kind]
            if not rows:
                continue
            count = len({row_id if row_id is not None else detail for row_id, detail, _ in rows})
            count = total if kind == "unread" else count
            told = "; ".join(detail.removeprefix(f"{name}: ") for _, detail, _ in rows[:_NAMED])
            what = NOTES.get(kind, "are left out, or lack part of what answers them")
            message = f"{count:,} of {total:,} questions of {name} {what} "
            message += f"({told}{'; …' if len(rows) > _NAMED else ''})"
            remedy = f"correct these rows of {one.source}"
            yield StageWarning(kind, name, count, total, message, remedy)
