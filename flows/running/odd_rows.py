"""Warnings after steps whose rows are no error, and still show that something went wrong.

A language model that extracts nothing, or says one thing whatever it is asked, ends no run: each of
its rows is refused with a reason, or a fallback takes its place. So what shows it is told here.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.threshold_keys import threshold_keys
from tercet.flows.running.few_rows import THRESHOLDS
from tercet.storage.artifacts import Artifact
from tercet.storage.fingerprint import digest, file_digest
from tercet.storage.rows import Rows, joined, quoted
from tercet.storage.store import StoreError
from tercet.tasks.evaluation import evaluate
from tercet.tasks.knowledge import extract, extract_parse
from tercet.tasks.scoring import select
from tercet.tasks.scoring.pairing import RANDOM
from tercet.tasks.synthesis import parse, synthesise
from tercet.tasks.synthesis.methods import PROMPTED_NAMES, method_of

# Most sentences of any field name a thing or a number.
UNMENTIONED = 0.5
# Strict thresholds leave a method a tenth of its candidates and more where it does what it should.
# A share of five in a hundred shows in a hundred; that there is none shows in ten.
ACCEPTED, OF_MANY, OF_FEW = 0.05, 100, 10
# A few short answers may be alike by chance, in a small run as well.
REPEATED, REPEATS = 0.01, 5
# Beyond it, training is mostly on the fallback.
FALLEN_BACK = 0.5

Kind: TypeAlias = Literal[
    "no_mention", "refused", "one_answer", "random_negative", "self_positive", "unusable"
]
Find: TypeAlias = "Callable[[Any, Mapping[str, Rows], Step, Sequence[Step]], list[Odd]]"


@dataclass(frozen=True)
class Odd:
    """One thing to tell: `count` of `total` rows of a stage are of this kind.

    key: the method or set, if it is about one. example: one such row's text, or its fault.
    remedy: the sentence's end.
    """

    stage: str
    key: str | None
    kind: Kind
    count: int
    total: int
    example: str | None
    remedy: str


_SAID = {
    "no_mention": "no mention was found in {count:,} of {total:,} sentences",
    "refused": "{count:,} of {total:,} rows of {key} were refused",
    "one_answer": "{count:,} of {total:,} answers are the same text",
    "random_negative": "{count:,} of {total:,} triplets have a random sentence as their negative, "
    "since no text written for it was accepted",
    "self_positive": "{count:,} of {total:,} triplets have the anchor itself as their positive, "
    "since no text written for it was accepted",
    "unusable": "{count:,} of {total:,} rows of {key} cannot be used",
}
_SHOWN = 80


def sentence(odd: Odd) -> str:
    """The row as people read it."""
    said = f"{odd.stage}: {_SAID[odd.kind].format(**vars(odd))}"
    if odd.example is not None:
        text = " ".join(odd.example.split())
        said += f", such as {text if len(text) <= _SHOWN else text[: _SHOWN - 1] + '…'!r}"
    return f"{said}: {odd.remedy}."


def odd_rows(
    step: Step, steps: Sequence[Step], artifact_of: Callable[[str], Artifact], memory_limit: str
) -> list[Odd]:
    """What there is to tell of a finished step; nothing after most stages.

    It is looked for once for each artifact, and kept in the store: a run that reuses the step says
    the same without reading its rows again.

    steps: of the whole run. artifact_of: the finished artifact of a step's name.
    """
    if step.stage.name not in _FIND:
        return []
    own = artifact_of(step.name)
    # Other code may find other things.
    place = f"cache/odd_rows/{digest([step.name, own.version, file_digest(Path(__file__))])}.json"
    known = own.store.get_json(place)
    if known is not None:
        return [Odd(**odd) for odd in known]
    found = _found(step, steps, artifact_of, memory_limit)
    with suppress(StoreError):  # read-only or full: it is looked for again
        own.store.create_json(place, [asdict(odd) for odd in found])
    return found


def _found(
    step: Step, steps: Sequence[Step], artifact_of: Callable[[str], Artifact], memory_limit: str
) -> list[Odd]:
    import duckdb

    slots = {slot: [artifact_of(n).rows() for n in names] for slot, names in step.inputs.items()}
    rows = {slot: joined(parts) for slot, parts in slots.items()}
    with duckdb.connect() as db:
        db.execute(f"SET memory_limit = {quoted(memory_limit)}")
        db.execute("SET enable_progress_bar = false")
        return _FIND[step.stage.name](db, {**rows, "": artifact_of(step.name).rows()}, step, steps)


def _without_mention(
    db: Any, rows: Mapping[str, Rows], step: Step, steps: Sequence[Step]
) -> list[Odd]:
    by_rules, sentences = step.stage.name == extract.STAGE.name, rows["sentences"].sql("sentences")
    asked = sentences if by_rules else rows["generations"].sql("generations")
    count, total, example = db.execute(
        f"""SELECT count(*) FILTER (NOT found), count(*), min(text) FILTER (NOT found)
        FROM (SELECT text, sentence_id IN (SELECT sentence_id FROM {rows[""].sql("mentions")})
            AS found FROM {sentences} WHERE sentence_id IN (SELECT sentence_id FROM {asked}))"""
    ).fetchone()
    if not total or count < UNMENTIONED * total:
        return []
    remedy = "read the answers (tercet try RECIPE --method extract), change the prompt or the model"
    if by_rules:
        remedy = "the rules know English nouns and numbers; name a lexicon of the field, or extract"
        remedy += " with a language model (extract_generate)"
    return [Odd(step.name, None, "no_mention", count, total, example, remedy)]


def _one_answer(db: Any, rows: Mapping[str, Rows], step: Step, steps: Sequence[Step]) -> list[Odd]:
    method, generations = getattr(step.config, "method", ""), rows[""].sql("generations")
    if method not in PROMPTED_NAMES:
        return []
    said, count, total = db.execute(
        f"""SELECT max_by(said, n), max(n)::BIGINT, sum(n)::BIGINT FROM
        (SELECT hash(trim(raw)) AS said, count(*) AS n FROM {generations} GROUP BY said)"""
    ).fetchone()
    if not total or count < REPEATS or count <= REPEATED * total:
        return []
    text = f"SELECT any_value(raw) FROM {generations} WHERE hash(trim(raw)) = ?"
    (example,) = db.execute(text, [said]).fetchone()
    remedy = f"read them with their prompts (tercet try RECIPE --method {method}), and change the"
    remedy += " prompt, the temperature or the model"
    return [Odd(step.name, method, "one_answer", count, total, example, remedy)]


def _refused_answers(
    db: Any, rows: Mapping[str, Rows], step: Step, steps: Sequence[Step]
) -> list[Odd]:
    generations, kept = rows["generations"].sql("generations"), rows[""].sql("candidates")
    counts = f"""SELECT method, count(*) AS total, count(*) FILTER (generation_id IN
        (SELECT generation_id FROM {kept})) AS accepted FROM {generations} GROUP BY method"""
    refused = f"""SELECT g.method, reason, text FROM {rows[""].sql("rejects")} r
        JOIN {generations} g ON g.generation_id = r.row_id"""
    return _refused(db, step, counts, refused, {"cut_off": "raise its max_tokens"})


def _selected(db: Any, rows: Mapping[str, Rows], step: Step, steps: Sequence[Step]) -> list[Odd]:
    settings = step.config.model_dump(mode="json")
    counts = f"""SELECT method, sum(candidates)::BIGINT AS total, sum(accepted)::BIGINT AS accepted
        FROM {rows[""].sql("acceptance")} GROUP BY method"""
    refused = f"""SELECT c.method, reason, r.text FROM {rows[""].sql("rejects")} r
        JOIN {rows["candidates"].sql("candidates")} c ON c.candidate_id = r.row_id"""
    mends = {
        reason: f"{change} {threshold_keys(name, settings)}"
        for reason, (change, name) in THRESHOLDS.items()
    }
    found = _refused(db, step, counts, refused, mends)
    total, unrelated, itself = db.execute(
        f"""SELECT count(*), count(*) FILTER (negative_method = '{RANDOM}'),
            count(*) FILTER (positive_id IS NULL) FROM {rows[""].sql("triplets")}"""
    ).fetchone()
    # A random negative is a fallback unless the config gives it a place.
    methods = [o.config.method for o in steps if isinstance(o.config, synthesise.SynthesiseConfig)]
    asked = {method_of(method).purpose for method in methods if method != RANDOM}
    fallback = RANDOM not in settings["methods"] and "negative" in asked
    remedy = "see what was refused (tercet sql 'SELECT * FROM acceptance')"
    if fallback and unrelated > FALLEN_BACK * total:
        found.append(Odd(step.name, None, "random_negative", unrelated, total, None, remedy))
    if "positive" in asked and itself > FALLEN_BACK * total:
        found.append(Odd(step.name, None, "self_positive", itself, total, None, remedy))
    return found


def _unusable(db: Any, rows: Mapping[str, Rows], step: Step, steps: Sequence[Step]) -> list[Odd]:
    """Rows of files of graded pairs, told once: by the measure before the training."""
    if not isinstance(step.config, evaluate.EvaluateConfig) or "baseline" in rows:
        return []
    found = []
    for name in step.config.sts_sets:
        count, example = db.execute(
            f"""SELECT count(*), min(detail) FROM {rows[""].sql("rejects")}
            WHERE starts_with(detail, ?)""",
            [f"{name}: row "],
        ).fetchone()
        (used,) = db.execute(
            f"""SELECT coalesce(sum(n), 0)::BIGINT FROM {rows[""].sql("evaluations")}
            WHERE suite = 'sts_sets' AND task IN (?, ?) AND metric = 'spearman'""",
            [name, f"{name} dev"],
        ).fetchone()
        if count:
            fault, remedy = example.removeprefix(f"{name}: "), "correct them in its file"
            found.append(Odd(step.name, name, "unusable", count, count + used, fault, remedy))
    return found


def _refused(db: Any, step: Step, counts: str, refused: str, mends: Mapping[str, str]) -> list[Odd]:
    """Methods of which next to nothing was accepted.

    counts: (method, total, accepted); refused: (method, reason, text). mends: by the reason.
    """
    few = db.execute(
        f"""SELECT method, total, accepted, reasons[1] AS most FROM ({counts}) JOIN
        (SELECT method, list({{reason: reason, text: text}} ORDER BY n DESC, reason) AS reasons
            FROM (SELECT method, reason, count(*) AS n, min(text) AS text FROM ({refused})
                GROUP BY method, reason) GROUP BY method) USING (method)
        WHERE (total >= {OF_MANY} AND accepted < {ACCEPTED} * total)
            OR (total >= {OF_FEW} AND accepted = 0) ORDER BY method"""
    ).fetchall()
    found = []
    for method, total, accepted, most in few:
        if most["reason"] == "no_weight":  # the recipe wants none of it
            continue
        mend = mends.get(most["reason"], f"read them (tercet try RECIPE --method {method})")
        remedy = f"most often as {most['reason']}; {mend}"
        found.append(
            Odd(step.name, method, "refused", total - accepted, total, most["text"], remedy)
        )
    return found


_FIND: Mapping[str, Find] = {
    extract.STAGE.name: _without_mention,
    extract_parse.STAGE.name: _without_mention,
    synthesise.NAME: _one_answer,
    parse.STAGE.name: _refused_answers,
    select.STAGE.name: _selected,
    evaluate.STAGE.name: _unusable,
}
