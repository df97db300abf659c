"""Findings about corpora, mentions extracted from them, and a kept sample or graph.

Counts come from `corpus_outcomes`; only the first sentences' texts are read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from tercet.storage.rows import quoted
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, eligible
from tercet.tasks.corpus.gather import HTML
from tercet.tasks.corpus.ingest import LARGE_CLUSTER, NOTHING_KEPT, PARTED
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.splits import SPLITS
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.findings.finding import Finding, Look, Row, counted
from tercet.tasks.training.train_settings import TrainConfig

# Shares that warn. LOST: unreadable rows, sentences that splits leave out, or pairs left out.
LOST = 0.1
# Sentences or pairs that repeat an earlier one; in documentation every sixth does.
REPEATED = 0.5
# If at least this many documents are requested for dev or test, getting less than a third of them
# is no accident.
ASKED = 10
# With fewer sentences, test cannot measure and dev cannot choose.
TINY = {"test": 30, "dev": 1}
# LEFT_IN: the share of the first LOOKED_AT sentences that holds tags or boilerplate, LEAST: their
# least number.
LEFT_IN, LEAST, LOOKED_AT = 0.01, 5, 20_000
# A share of the anchors that a corpus lacks.
SHORT = 0.1
# In any field most sentences name a thing or a number.
UNMENTIONED = 0.5

_LOOK = "see them (tercet sql \"SELECT reason, detail, text FROM rejects WHERE stage = 'ingest'\")"
_TAGS = (
    "a|b|br|center|code|div|em|font|h[1-6]|hr|i|img|li|ol|p|pre|span|strong|table|tbody|td|th|tr|u"
)
_MARKUP = rf"</?(?:{_TAGS}|ul)(?:\s[^<>]*)?/?>|&(?:nbsp|amp|lt|gt|quot|apos|#\d+|#x[0-9a-f]+);"
_BOILERPLATE = (
    "sent from my (?:iphone|ipad|android|phone|mobile)|all rights reserved|unsubscribe|"
    "accept (?:all )?cookies|enable javascript"
)


# For each corpus and unit: unreadable rows (without markup, which is code and tables between the
# prose), repeated texts, and rows that the splits leave out; for pairs, all rows that are left out.
_LOST = f"""
WITH outcomes AS (SELECT corpus, if(unit = 'document', 'row', unit) AS unit, outcome, n,
    CASE WHEN unit = 'row' THEN 'unreadable' WHEN outcome LIKE 'duplicate%' THEN 'duplicates'
        WHEN unit = 'document' OR outcome IN {SPLITS} THEN 'kept'
        WHEN unit = 'pair' OR regexp_matches(outcome, '^(shared_with|like)_') THEN 'left_out'
        END AS kind
    FROM corpus_outcomes WHERE unit NOT IN ('text', '{PARTED}') AND outcome <> 'markup'),
units AS (SELECT corpus, unit, sum(n) AS units, coalesce(sum(n) FILTER (kind = 'kept'), 0) AS kept
    FROM outcomes GROUP BY ALL)
SELECT corpus AS key, kind, unit, sum(n)::BIGINT AS count,
    if(kind = 'duplicates', units, kept + sum(n))::BIGINT AS total,
    list({{reason: outcome, n: n}} ORDER BY n DESC, outcome) AS why
FROM outcomes JOIN units USING (corpus, unit) WHERE kind <> 'kept'
GROUP BY corpus, kind, unit, units, kept"""


def _matching(pattern: str) -> str:
    """SQL for matches among the first sentences; the rest of the corpus is not read again."""
    first = f"SELECT text FROM sentences LIMIT {LOOKED_AT}"
    return counted(f"regexp_matches(text, {quoted(pattern)}, 'i')", first)


_HELD = f"count >= greatest({LEAST}, {LEFT_IN} * total)"


def _unused_pairs(look: Look) -> str:
    """A query of the pairs that a recipe names, but neither trains on nor measures."""
    trainings = [one.phase for one in look.configs if isinstance(one, TrainConfig)]
    measured = [one.retrieval for one in look.configs if isinstance(one, EvaluateConfig)]
    sources = {part.rows.source for phase in trainings for part in phase.parts}
    named = [quoted(one.name) for one in look.work.config.corpora if one.query is not None]
    if any(measured) or "document_pairs" in sources or not (trainings or measured) or not named:
        return ""
    return f"""SELECT corpus AS key, sum(n) FILTER (outcome IN {SPLITS})::BIGINT AS count,
        sum(n)::BIGINT AS total FROM corpus_outcomes
        WHERE unit = 'pair' AND corpus IN ({", ".join(named)}) GROUP BY corpus"""


def _held_out(look: Look) -> Iterator[Row]:
    """Corpora of which far fewer documents are held out than requested."""
    config: IngestConfig = look.work.config
    for corpus in config.corpora:
        documents, parted = (_counts(look)[corpus.name][unit] for unit in ("document", PARTED))
        usable = documents.total() - documents[NOTHING_KEPT]
        targets = {
            split: share * usable
            for split, share in (("test", config.test), ("dev", config.dev))
            if share * usable >= ASKED and documents[split] < share * usable / 3
        }
        shares = " and ".join(
            f"{documents[split]:,} are in {split} ({target:,.0f} were requested)"
            for split, target in targets.items()
        )
        remedy = "raise " + " and ".join(f"ingest.{split}" for split in targets)
        if parted:
            apart = f"{parted['train']:,} in train and {parted['test']:,} in test"
            remedy = f"set ingest.max_shingle_frequency=1, which separates them and leaves {apart}"
            enough = all(parted[split] >= target / 3 for split, target in targets.items())
            if not enough or 2 * parted["train"] < usable:
                remedy = "they are too alike to separate (ingest.max_shingle_frequency=1 would "
                remedy += f"leave {apart}): leave copies out, or measure on another corpus"
        elif documents[LARGE_CLUSTER]:
            remedy = "raise ingest.largest_cluster"
        if targets:
            count = sum(documents[split] for split in targets)
            row = {"key": corpus.name, "count": count, "total": usable, "splits": shares}
            yield row | {"mend": remedy}


def _tiny_splits(look: Look) -> Iterator[Row]:
    """Splits of all corpora that are too small, unless `held_out` warns already."""
    config: IngestConfig = look.work.config
    sentences = sum((one["sentence"] for one in _counts(look).values()), Counter[str]())
    total = sum(sentences[split] for split in SPLITS)
    if not total or any(_held_out(look)):
        return
    for split, share in (("test", config.test), ("dev", config.dev)):
        if share and sentences[split] < TINY[split]:
            yield {"key": split, "count": sentences[split], "total": total}


def _counts(look: Look) -> dict[str, dict[str, Counter[str]]]:
    """The counts of outcomes, by corpus and unit."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for row in look.made.table("corpus_outcomes").to_pylist():
        counts[row["corpus"]][row["unit"]][row["outcome"]] = row["n"]
    return counts


def _long_passages(look: Look) -> str:
    """A query of passages longer than the least `max_length` of trainings, or of evaluations."""
    lengths: dict[str, int] = {}
    for config in look.configs:
        if isinstance(config, TrainConfig):
            key, longest = "train", config.phase.max_length
        elif isinstance(config, EvaluateConfig) and config.max_length is not None:
            key, longest = "evaluate", config.max_length
        else:
            continue
        lengths[key] = min(longest, lengths.get(key, longest))
    tokens = look.work.config.tokens
    return " UNION ALL ".join(
        counted(
            f"n_tokens > {longest}",
            "FROM passages",
            columns=f"'{key}' AS key, {longest} AS longest, {tokens} AS tokens",
        )
        for key, longest in lengths.items()
        if longest < tokens
    )


def _unkept_shares(look: Look) -> Iterator[Row]:
    """Rows about corpora that have too few sentences for their share of the anchors."""
    shares = {corpus.name: corpus.share for corpus in look.work.config.corpora}
    counts = look.made.table("anchor_shares").to_pylist()
    scale = max(row["anchors"] / shares[row["corpus"]] for row in counts)
    for row in counts:
        expected = round(scale * shares[row["corpus"]])
        if row["anchors"] < (1 - SHORT) * expected:
            yield {"key": row["corpus"], "count": row["anchors"], "total": expected}


def _kept_sample(look: Look) -> Iterator[Row]:
    """Corpora with more or fewer sentences than when the kept sample was drawn."""
    drawn = {
        row["corpus"]: row["sentences"] for row in look.made.table("anchor_shares").to_pylist()
    }
    rules = {row["corpus"]: row for row in look.made.table("anchors").to_pylist()}
    now: Counter[str] = Counter()
    for file in look.work.inputs["sentences"].files("sentences"):
        table = pq.read_table(file, columns=list(ANCHOR_COLUMNS))
        corpus = table["corpus"].to_numpy()
        for name in set(corpus):
            rule = rules.get(name, {"min_words": 1, "max_words": 1 << 30, "company": 0})
            fits = eligible(table, rule["min_words"], rule["max_words"], rule["company"])
            now[name] += int((fits & (corpus == name)).sum())
    for name, count in sorted(now.items()):
        before = drawn.get(name, 0)
        if count != before:
            row = {"key": name, "count": abs(count - before), "total": count}
            yield row | {"before": before}


def _no_mention(look: Look) -> str:
    """SQL for read sentences without a mention; a language model reads only some sentences.

    The mentions of a sentence are adjacent, so that no set of ids is held; the example is one of
    the first sentences.
    """
    of_generations = "SEMI JOIN generations USING (sentence_id)" * (
        "generations" in look.work.inputs
    )
    read = f"FROM sentences {of_generations}"
    return f"""SELECT NULL AS key, total - named AS count, total, example
        FROM (SELECT count(*) AS total {read}), (SELECT min(text) AS example
            FROM ({read} LIMIT {LOOKED_AT}) ANTI JOIN mentions USING (sentence_id)),
            (SELECT count(*) FILTER (sentence_id IS DISTINCT FROM before) AS named
            FROM (SELECT sentence_id, lag(sentence_id) OVER () AS before FROM mentions))"""


_NO_MENTION = Finding(
    "no_mention",
    _no_mention,
    "no mention was found in {count:,} of {total:,} sentences",
    "the rules know English nouns and numbers: name a lexicon of the field or a pipeline of the "
    "language; of a language model read the answers (tercet try RECIPE --method extract), and "
    "change the prompt or the model",
    f"total > 0 AND count >= {UNMENTIONED} * total",
)
FINDINGS: Mapping[str, Sequence[Finding]] = {
    "ingest": (
        Finding(
            "left_out",
            _LOST,
            "corpus {key!r}: {count:,} of {total:,} {unit}s are left out ({reasons})",
            'see them (tercet sql "SELECT reason, detail, text FROM rejects '
            "WHERE stage = 'ingest'\")",
            f"count >= total * if(kind = 'duplicates', {REPEATED}, {LOST})",
        ),
        Finding(
            HTML,
            f"""SELECT corpus AS key, max(n) FILTER (unit = 'text') AS count,
            sum(n) FILTER (unit = 'document')::BIGINT AS total, any_value(text) AS example
            FROM corpus_outcomes LEFT JOIN rejects ON reason = '{HTML}'
                AND row_id = md5_number_lower(corpus || chr(31) || '{HTML}') GROUP BY corpus""",
            "corpus {key!r}: HTML was taken out of {count:,} of {total:,} texts",
            "see that their sentences are whole, or clean the source yourself",
        ),
        Finding(
            "unused_pairs",
            _unused_pairs,
            "corpus {key!r}: its {count:,} pairs of query and answer are neither trained on nor "
            "measured",
            "set evaluate.retrieval: true, train a part on `rows: document_pairs`, or let "
            "`tercet init` write a recipe with --query and --answer",
        ),
        Finding("held_out", _held_out, "corpus {key!r}: of {total:,} documents {splits}", "{mend}"),
        Finding(
            "tiny_split",
            _tiny_splits,
            "{key} has {count:,} of {total:,} sentences, too few to measure on",
            "add text, or raise ingest.{key}",
        ),
        Finding(
            "markup",
            _matching(_MARKUP),
            "{count:,} of the first {total:,} sentences hold HTML tags or entities",
            "take them out of the source",
            _HELD,
        ),
        Finding(
            "boilerplate",
            _matching(_BOILERPLATE),
            "{count:,} of the first {total:,} sentences hold what stands on every page or message",
            "take it out of the source",
            _HELD,
        ),
    ),
    "sample": (
        Finding(
            "unkept_share",
            _unkept_shares,
            "corpus {key!r} gives {count:,} anchors, and its share would be {total:,}",
            "leave sample.rows out, which keeps the shares exact, or give it more text",
        ),
    ),
    "passages": (
        Finding(
            "cut",
            _long_passages,
            "{key}.max_length is {longest}, and a passage has up to {tokens} tokens ({count:,} of "
            "{total:,} have more)",
            "raise {key}.max_length, or lower ingest.passages.tokens",
            "true",
        ),
    ),
    "extract": (_NO_MENTION,),
    "extract_parse": (_NO_MENTION,),
}
KEPT: Mapping[str, Sequence[Finding]] = {
    "sample": (
        Finding(
            "kept_sample",
            _kept_sample,
            "the sample of {age} is kept, when {key!r} had {before:,} sentences; it has {total:,}",
            "leave sample.keep out of a run to draw a new one, and tag that",
        ),
    ),
    "graph": (
        Finding(
            "kept_graph",
            counted(
                "node_id NOT IN (SELECT node_id FROM kg_nodes WHERE kind = 'entity')",
                """SELECT node_id, any_value(text) AS text, count(*) AS n FROM mentions
                WHERE kind = 'entity' GROUP BY node_id""",
                "arg_max(text, n)",
            ),
            "the graph of {age} is kept, in which {count:,} of {total:,} entities of the corpus "
            "are missing",
            "leave graph.keep out of a run to make a new graph, and tag that",
        ),
    ),
}
"""Findings about a kept version: rows that it lacks in comparison with a new version."""
