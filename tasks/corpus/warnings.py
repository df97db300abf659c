"""Warnings of corpora and of what is extracted from them: what `ingest` lost and left in, cut
passages, few mentions, and a sample or a graph that is kept.

Counts come from `corpus_outcomes`; texts are read of the first sentences alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq
from pydantic import BaseModel

from tercet.storage.rows import Rows
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, eligible
from tercet.tasks.corpus.gather import HTML, example_id
from tercet.tasks.corpus.ingest import LARGE_CLUSTER, NOTHING_KEPT, PARTED
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.splits import SPLITS
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.knowledge import extract
from tercet.tasks.reasons import remedies
from tercet.tasks.stage import Work, ask, connection
from tercet.tasks.training.train_settings import TrainConfig
from tercet.tasks.warning import StageWarning, age

# A share of unreadable rows, of sentences that the splits keep out, or of pairs left out.
LOST = 0.1
# A share of sentences or pairs that repeat an earlier one; every sixth does in documentation.
REPEATED = 0.5
# Where so many documents are asked for in dev or test, fewer than a third of them is no accident.
ASKED = 10
# With fewer sentences, test measures nothing, and dev chooses nothing.
TINY = {"test": 30, "dev": 1}
# A share of the first sentences, and at least so many, that hold tags or a page's boilerplate.
LEFT_IN, LEAST, LOOKED_AT = 0.01, 5, 20_000

_REPEATS = {"sentence": ("duplicate",), "pair": ("duplicate_query", "duplicate_answer")}
# What the splits keep out of dev or train.
_BY_SPLITS = ("shared_with_test", "shared_with_dev", "like_test", "like_dev")
_LOOK = "see them (tercet sql \"SELECT reason, detail, text FROM rejects WHERE stage = 'ingest'\")"
_TAGS = (
    "a|b|br|center|code|div|em|font|h[1-6]|hr|i|img|li|ol|p|pre|span|strong|table|tbody|td|th|tr|u"
)
_MARKUP = rf"</?(?:{_TAGS}|ul)(?:\s[^<>]*)?/?>|&(?:nbsp|amp|lt|gt|quot|apos|#\d+|#x[0-9a-f]+);"
_BOILERPLATE = (
    "sent from my (?:iphone|ipad|android|phone|mobile)|all rights reserved|unsubscribe|"
    "accept (?:all )?cookies|enable javascript"
)
_HELD = {
    "markup": (_MARKUP, "hold HTML tags or entities", "take them out of the source"),
    "boilerplate": (
        _BOILERPLATE,
        "hold what stands on every page or message",
        "take it out of the source",
    ),
}

# How often each outcome is that of each unit.
_Counts = defaultdict[str, Counter[str]]


def find_ingest(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """Warnings of each corpus, and of the splits of all."""
    if "corpus_outcomes" not in made.tables:  # to pretrain on, of which nothing is held out
        return
    config: IngestConfig = work.config
    found: dict[str, _Counts] = defaultdict(lambda: defaultdict(Counter))
    of_all = Counter[str]()
    for row in made.table("corpus_outcomes").to_pylist():
        found[row["corpus"]][row["unit"]][row["outcome"]] = row["n"]
        of_all[row["outcome"]] += row["n"] if row["unit"] == "sentence" else 0
    few: list[str] = []
    for corpus in config.corpora:
        counts, name = found[corpus.name], corpus.name
        yield from _unreadable(name, counts, corpus.source)
        yield from _unused(name, counts)
        yield from _cleaned(name, counts, work, made)
        yield from _repeated(name, counts)
        yield from _kept_out(name, counts)
        if corpus.query is not None:
            yield from _unused_pairs(name, counts, configs)
        for warning in _held_out(name, counts, {"test": config.test, "dev": config.dev}):
            few.append(warning.message)
            yield warning
    if not few:
        yield from _tiny(config, of_all)
    yield from _left_in(work, made)


def _listed(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {n:,}" for reason, n in reasons.most_common(3))


def _unreadable(name: str, counts: _Counts, source: str) -> Iterator[StageWarning]:
    rows = counts["row"].copy()
    del rows["markup"]  # no loss: code, tables and lists between the prose
    read = rows.total() + counts["document"].total()
    if rows.total() > LOST * read:
        said = f"corpus {name!r}: {rows.total():,} of {read:,} rows cannot be used"
        said += f" ({_listed(rows)})"
        yield StageWarning("unreadable", name, rows.total(), read, said, _LOOK)


def _unused(name: str, counts: _Counts) -> Iterator[StageWarning]:
    documents = counts["document"]
    if documents.total() <= documents[NOTHING_KEPT]:
        lost = sum((own for unit, own in counts.items() if unit != "document"), Counter[str]())
        said = f"corpus {name!r}: no document of it is used ({_listed(lost)})"
        mends = remedies([reason for reason, _ in lost.most_common(3)], "ingest")
        remedy = " and ".join(mends) or "leave it out, or give it texts that no other corpus has"
        read = documents.total()
        yield StageWarning("unused", name, read, read, said, remedy)


def _cleaned(name: str, counts: _Counts, work: Work, made: Rows) -> Iterator[StageWarning]:
    """Of texts that HTML was taken out of; one of them is shown as it was."""
    count = counts["text"][HTML]
    if not count:
        return
    query = f"SELECT text FROM {made.sql('rejects')} WHERE row_id = ? AND reason = ?"
    (example,) = ask(work, query, [example_id(name), HTML])[0]
    read = counts["document"].total()
    said = f"corpus {name!r}: HTML was taken out of {count:,} of {read:,} texts"
    remedy = "see that their sentences are whole, or clean the source yourself"
    yield StageWarning(HTML, name, count, read, said, remedy, example)


def _repeated(name: str, counts: _Counts) -> Iterator[StageWarning]:
    for unit, reasons in _REPEATS.items():
        found = counts[unit]
        lost = Counter({reason: found[reason] for reason in reasons if found[reason]})
        if lost and lost.total() >= REPEATED * found.total():
            said = f"corpus {name!r}: {lost.total():,} of {found.total():,} {unit}s repeat an "
            said += f"earlier one and are left out ({_listed(lost)})"
            remedy = "look for texts that stand on every page or in every row"
            if unit == "pair":
                remedy = "name a query and an answer whose texts differ from row to row"
            yield StageWarning("duplicates", name, lost.total(), found.total(), said, remedy)


def _unused_pairs(
    name: str, counts: _Counts, configs: Sequence[BaseModel]
) -> Iterator[StageWarning]:
    """Of a query and an answer that the recipe names, and then neither trains on nor measures."""
    trainings = [config.phase for config in configs if isinstance(config, TrainConfig)]
    measured = [config.retrieval for config in configs if isinstance(config, EvaluateConfig)]
    sources = {part.rows.source for phase in trainings for part in phase.parts}
    pairs = counts["pair"]
    made = sum(pairs[split] for split in SPLITS)
    if made and (trainings or measured) and not any(measured) and "document_pairs" not in sources:
        said = f"corpus {name!r}: its {made:,} pairs of query and answer are neither trained on "
        said += "nor measured"
        remedy = "set evaluate.retrieval: true, train a part on `rows: document_pairs`, or let "
        remedy += "`tercet init` write a recipe with --query and --answer"
        yield StageWarning("unused_pairs", name, made, pairs.total(), said, remedy)


def _kept_out(name: str, counts: _Counts) -> Iterator[StageWarning]:
    """Of sentences and pairs that are left out, if they are many; repetitions are no loss."""
    for unit, repeats in _REPEATS.items():
        found = counts[unit]
        kept = sum(found[split] for split in SPLITS)
        lost = Counter(
            {
                reason: n
                for reason, n in found.items()
                if reason in _BY_SPLITS or (unit == "pair" and reason not in (*SPLITS, *repeats))
            }
        )
        total = kept + lost.total()
        if lost and lost.total() >= LOST * total:
            said = f"corpus {name!r}: {lost.total():,} of {total:,} {unit}s are left out "
            said += f"({_listed(lost)}), and {found['train']:,} are in train"
            common = [reason for reason, _ in lost.most_common(3)]
            mends = " and ".join(remedies(common, "ingest"))
            remedy = f"to keep more, {mends}" if mends else _LOOK
            yield StageWarning("left_out", name, lost.total(), total, said, remedy)


def _held_out(name: str, counts: _Counts, asked: Mapping[str, float]) -> Iterator[StageWarning]:
    documents = counts["document"]
    kept = documents.total() - documents[NOTHING_KEPT]
    few = [
        split
        for split, share in asked.items()
        if share * kept >= ASKED and documents[split] < share * kept / 3
    ]
    if not few:
        return
    there = " and ".join(f"{documents[split]:,} are in {split}" for split in few)
    wanted = " and ".join(f"{asked[split]:.0%}" for split in few)
    said = f"corpus {name!r}: of {kept:,} documents {there}, where {wanted} were asked for"
    together = documents[LARGE_CLUSTER]
    parted = counts[PARTED]
    remedy = f"raise {' and '.join(f'ingest.{split}' for split in few)}"
    if together:
        said += (
            f"; {together:,} are tied together by runs of eight words or by nearly all their words,"
            " and went to train"
        )
        remedy = "raise ingest.largest_cluster"
    elif parted:
        # No document leaves test, so too few were drawn: those that are tied are drawn as one.
        said += "; documents that share runs of eight words or nearly all words stay together"
    if parted:
        remedy = (
            "they are too alike to be parted (ingest.max_shingle_frequency=1 would leave "
            f"{parted['train']:,} in train), so leave copies out, or measure on texts of another "
            "corpus"
        )
        enough = all(parted[split] >= asked[split] * kept / 3 for split in few)
        if enough and 2 * parted["train"] >= kept:
            remedy = "ingest.max_shingle_frequency=1 parts them, and leaves "
            remedy += f"{parted['train']:,} in train and {parted['test']:,} in test"
    count = sum(documents[split] for split in few)
    yield StageWarning("held_out", name, count, kept, said, remedy)


def _tiny(config: IngestConfig, sentences: Counter[str]) -> Iterator[StageWarning]:
    """Of a split of all corpora that was asked for and holds next to nothing."""
    total = sum(sentences[split] for split in SPLITS)
    for split, share in (("test", config.test), ("dev", config.dev)):
        n = sentences[split]
        if total and share and n < TINY[split]:
            said = f"{split} has {n:,} of {total:,} sentences, too few to measure on"
            remedy = f"add text, or raise ingest.{split}"
            yield StageWarning("tiny_split", split, n, total, said, remedy)


def _left_in(work: Work, made: Rows) -> Iterator[StageWarning]:
    """Of tags and boilerplate in the first sentences; no more of the corpus is read again."""
    for kind, (pattern, said, remedy) in _HELD.items():
        ((count, total, example),) = ask(
            work,
            f"""SELECT count(*) FILTER (found), count(*), min(text) FILTER (found)
            FROM (SELECT text, regexp_matches(text, ?, 'i') AS found FROM
                (SELECT text FROM {made.sql("sentences")} LIMIT {LOOKED_AT}))""",
            [pattern],
        )
        if count >= max(LEAST, LEFT_IN * total):
            said = f"{count:,} of the first {total:,} sentences {said}"
            yield StageWarning(kind, None, count, total, said, remedy, example)


def find_long_passages(
    work: Work, made: Rows, configs: Sequence[BaseModel]
) -> Iterator[StageWarning]:
    """A warning for each lower `max_length`, of trainings and of evaluations."""
    lengths: dict[str, int] = {}
    for config in configs:
        if isinstance(config, TrainConfig):
            key, longest = "train", config.phase.max_length
        elif isinstance(config, EvaluateConfig) and config.max_length is not None:
            key, longest = "evaluate", config.max_length
        else:
            continue
        lengths[key] = min(longest, lengths.get(key, longest))
    for key, longest in lengths.items():
        if longest >= work.config.tokens:
            continue
        ((count, total, example),) = ask(
            work,
            f"""SELECT count(*) FILTER (n_tokens > {longest}), count(*),
                min(text) FILTER (n_tokens > {longest}) FROM {made.sql("passages")}""",
        )
        said = f"{key}.max_length is {longest}, and a passage has up to {work.config.tokens} "
        said += f"tokens ({count:,} of {total:,} have more)"
        remedy = f"raise {key}.max_length, or lower ingest.passages.tokens"
        yield StageWarning("cut", key, count, total, said, remedy, example)


_REMEDY = "leave sample.keep out of a run to draw a new one, and tag that"


def find_kept_sample(
    work: Work, made: Rows, configs: Sequence[BaseModel]
) -> Iterator[StageWarning]:
    """A warning for each corpus with more or fewer sentences, or without any anchor.

    work: with the new sentences, and when the sample was drawn. made: the sample that is kept.
    """
    drawn = {row["corpus"]: row["sentences"] for row in made.table("anchor_shares").to_pylist()}
    rules = {row["corpus"]: row for row in made.table("anchors").to_pylist()}
    now: Counter[str] = Counter()
    for file in work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=list(ANCHOR_COLUMNS))
        corpus = table["corpus"].to_numpy()
        for name in set(corpus):
            rule = rules.get(name, {"min_words": 1, "max_words": 1 << 30, "company": 0})
            fits = eligible(table, rule["min_words"], rule["max_words"], rule["company"])
            now[name] += int((fits & (corpus == name)).sum())
    kept = f"the sample of {age(work.spec['made'])} is kept"
    for name, count in sorted(now.items()):
        before = drawn.get(name, 0)
        if name not in rules:
            said = f"{kept}, which has no anchor of the corpus {name!r} with {count:,} sentences"
            yield StageWarning("kept_sample", name, count, count, said, _REMEDY)
        elif count != before:
            more = f"{abs(count - before):,} {'more' if count > before else 'fewer'}"
            said = f"{kept}, and of {name!r} there are now {more} than its {before:,} sentences"
            yield StageWarning("kept_sample", name, abs(count - before), count, said, _REMEDY)


# Most sentences of any field name a thing or a number.
UNMENTIONED = 0.5


def find_extract(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning if no mention was found in half of the sentences or more."""
    by_rules = work.stage == extract.STAGE.name
    sentences = work.inputs["sentences"].sql("sentences")
    asked = sentences if by_rules else work.inputs["generations"].sql("generations")
    with connection(work) as db:
        count, total, example = db.execute(
            f"""SELECT count(*) FILTER (NOT found), count(*), min(text) FILTER (NOT found)
            FROM (SELECT text, sentence_id IN (SELECT sentence_id FROM {made.sql("mentions")})
                AS found FROM {sentences} WHERE sentence_id IN (SELECT sentence_id FROM {asked}))"""
        ).fetchall()[0]
    if not total or count < UNMENTIONED * total:
        return
    remedy = "read the answers (tercet try RECIPE --method extract), change the prompt or the model"
    if by_rules:
        remedy = "the rules know English nouns and numbers; name a lexicon of the field, or extract"
        remedy += " with a language model (extract_generate)"
    said = f"no mention was found in {count:,} of {total:,} sentences"
    yield StageWarning("no_mention", None, count, total, said, remedy, example)


_NEW_GRAPH = "leave graph.keep out of a run to make a new graph, and tag that"


def find_kept_graph(work: Work, made: Rows, configs: Sequence[BaseModel]) -> Iterator[StageWarning]:
    """A warning for entities of the corpus that no method swaps in, one for those that are gone.

    work: with the new mentions, and when the graph was made. made: the graph that is kept.
    """
    counted = """SELECT count(*) FILTER (gone), count(*), arg_max(text, n) FILTER (gone)
        FROM (SELECT text, n, node_id NOT IN (SELECT node_id FROM {others}) AS gone FROM {own})"""
    nodes = f"(SELECT * FROM {made.sql('kg_nodes')} WHERE kind = 'entity')"
    mentions = f"""(SELECT node_id, any_value(text) AS text, count(*) AS n
        FROM {work.inputs["mentions"].sql("mentions")} WHERE kind = 'entity' GROUP BY node_id)"""
    known = f"(SELECT node_id, text, count AS n FROM {nodes})"
    with connection(work) as db:
        new, entities, example = db.execute(counted.format(others=nodes, own=mentions)).fetchall()[
            0
        ]
        gone, held, former = db.execute(counted.format(others=mentions, own=known)).fetchall()[0]
    kept = f"the graph of {age(work.spec['made'])} is kept"
    if new:
        said = f"{kept}, in which {new:,} of {entities:,} entities of the corpus are missing"
        yield StageWarning("kept_graph", None, new, entities, said, _NEW_GRAPH, example)
    if gone:
        said = f"{kept}, which has {gone:,} of {held:,} entities from documents that are gone, and "
        said += "methods may still write these"
        yield StageWarning("kept_graph_gone", None, gone, held, said, _NEW_GRAPH, former)
