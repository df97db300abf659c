"""A recipe fitted to another corpus: what the corpus's shape allows, and how it is measured.

The choices become the recipe, which the run records: nothing is decided later or in silence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from tercet.tasks.corpus.sources.discover import Description
from tercet.tasks.stage import BadInput
from tercet.tasks.synthesis.methods import RULE_NAMES

# Methods that take the positive from the sentence's surroundings, which single sentences lack.
SURROUNDINGS = ("next_sentences", "rest_of_paragraph", "neighbour_paragraph")
# Anchors of the corpus for one of another, where the corpus's own sentences are trained on.
_SHARE = 2.0
# A paragraph's other sentences are on its topic if they are this similar, by the quickstart's
# evaluator; few are not.
_ON_TOPIC = 0.2
# Documents, and the shares of them that dev and test take: intervals need some thousand queries.
_HELD_OUT = ((20_000, 0.2), (100_000, 0.1))
_HELD_OUT_BEYOND = 0.05
_DEV = 0.05
# Single sentences of fewer words on average are not cut in two: a half would say too little.
_CUT_WORDS = 10

# Words from which a single sentence in a script without spaces is cut, to measure by its halves:
# such sentences are short.
_UNSPACED_HALVES = 8
RANDOM = "random"
_PAIRS, _QUERIES, _TITLES = "document_pairs", "queries", ("title", "heading")

# Rows in place of natural pairs, by kind.
_ROWS: Mapping[str, dict[str, Any]] = {
    "paragraphs": {"from": "pairs", "relation": "topic", "role": "domain", "one_per": "sentence"},
    "sentences": {"from": "anchors", "role": "domain", "positive": "half"},
    "short sentences": {"from": "anchors", "role": "domain"},
}
_HOW = {
    "pairs": "the pairs of train are trained on",
    "queries": "titles and headings are trained on as queries to the passages below them",
    "queries and pairs": "titles, headings and the pairs of train are trained on as queries",
    "paragraphs": "each sentence trains with what surrounds it",
    "sentences": "the first half of each trains with its second, since nothing surrounds it",
    "short sentences": "each trains with itself under dropout, since it is too short to be cut",
    "themselves": "each trains with itself under dropout",
}
_AS_BEFORE = "trained as the recipe says"


def fitted(
    base: Mapping[str, Any], described: Description, limit: int | None = None
) -> tuple[dict[str, Any], str]:
    """The recipe's content for this corpus, and one line that says what was chosen and why.

    The corpus takes the place of the corpora of role domain; general and labelled corpora stay.
    limit: the most rows to read; None: all.
    """
    content = {key: value for key, value in base.items() if key != "description"}
    corpora = base.get("corpora") or []
    if "train" not in base and "whiten" not in base:
        sentence = f"{described.source}: {described.counted} to pretrain on."
        return {**content, **_to_pretrain(base, described)}, sentence
    others = [corpus for corpus in corpora if corpus.get("role", "domain") != "domain"]
    content["corpora"] = [corpus_entry(described, others), *others]
    paired = described.shape == "pairs"
    short = described.shape == "sentences" and described.mean_words < _CUT_WORDS
    rows: str = "short sentences" if short else described.shape
    content["evaluate"] = {**(base.get("evaluate") or {}), "retrieval": paired}
    if all(corpus.get("source") != described.source for corpus in corpora):
        documents = min(described.rows, limit or described.rows)
        test = next((share for most, share in _HELD_OUT if documents < most), _HELD_OUT_BEYOND)
        content["ingest"] = {**(base.get("ingest") or {}), "test": test, "dev": _DEV}
        content["evaluate"]["halves"] = True
    train = dict(base.get("train") or {})
    if not paired and (train.get("choose") or {}).get("by", "retrieval") == "retrieval":
        train.pop("choose", None)
    if "train" in base:
        content["train"] = train
    if described.unspaced and described.shape == "sentences" and content["evaluate"].get("halves"):
        content["evaluate"]["halves_min_words"] = _UNSPACED_HALVES
    if described.shape == "sentences":
        _without_surroundings(content)
    if any(_source(part) == _QUERIES for part in _parts(train)):
        rows = _fit_queries(content, described, rows)
    elif not any(map(_on_pairs, _parts(train))):
        rows = "themselves" if all(map(_on_itself, _parts(train))) else ""
    elif not paired:
        _without_pairs(content, rows)
    sentence = _said(described, _HOW.get(rows, _AS_BEFORE), content["evaluate"])
    return content, sentence + (_in_english(content) if described.unspaced else "")


def _in_english(content: dict[str, Any]) -> str:
    """Keeps rules to the corpora of role general, if there are any. Returns a sentence."""
    methods = dict(content.get("synthesise") or {})
    rules = [name for name in methods if name in RULE_NAMES and name not in (*SURROUNDINGS, RANDOM)]
    if not rules:
        return ""
    general = [c["name"] for c in content["corpora"] if c.get("role") == "general"]
    if not general:
        return (
            f" The rules ({', '.join(rules)}) are for English and will find little to change here: "
            "use methods that ask a language model."
        )
    for name in rules:
        methods[name] = {**(methods[name] or {}), "role": "general"}
    content["synthesise"] = methods
    return f" The rules are for English: they change {' and '.join(general)} alone."


def _to_pretrain(base: Mapping[str, Any], described: Description) -> dict[str, Any]:
    """The corpora of a recipe that only makes models: this one in the place of role pretrain."""
    others = [corpus for corpus in base.get("corpora") or [] if corpus.get("role") != "pretrain"]
    entry = corpus_entry(described, others)
    shared = {k: v for k, v in entry.items() if k in ("name", "source", "prose")}
    text = {} if described.text is None else {"text": described.text}
    return {"corpora": [{**shared, "role": "pretrain", **text}, *others]}


def corpus_entry(described: Description, beside: Sequence[Any]) -> dict[str, Any]:
    """The corpus as a recipe lists it.

    beside: the other corpora of the recipe, which keep their names.
    """
    entry: dict[str, Any] = {
        "name": own_name(recipe_name(described.source), beside),
        "source": described.source,
        "role": "domain",
    }
    if described.pair is None or described.text not in described.pair:
        entry |= {"text": described.text} if described.text is not None else {}
    if described.pair is not None:
        entry["query"], entry["answer"] = described.pair
    if described.labels:
        entry["labels"] = next(iter(described.labels))
    if described.format == ".txt":
        entry["prose"] = described.prose
    return entry


def with_pair(described: Description, query: str | None, answer: str | None) -> Description:
    """The description with these columns as the natural pair, if they are named.

    Raises: BadInput for a query without an answer or the reverse, and for a missing column.
    """
    if query is None and answer is None:
        return described
    if query is None or answer is None or query == answer:
        raise BadInput(
            "missing_key", "--query and --answer name the two columns of a pair: give both"
        )
    for column in (query, answer):
        if column not in described.columns:
            columns = ", ".join(map(repr, described.columns))
            its = f"its columns are {columns}" if columns else "it has no columns"
            raise BadInput("missing_column", f"{described.source} has no column {column!r}: {its}")
    labels = {k: v for k, v in described.labels.items() if k not in (query, answer)}
    return replace(described, pair=(query, answer), labels=labels)


def recipe_name(source: str) -> str:
    """A recipe name derived from the source: letters, digits and underscores."""
    stem = Path(source).name.split(".")[0].strip("*?[]{}")
    if not stem:
        stem = Path(source).parent.name
    clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem).strip("_")
    return clean[:60] or "corpus"


def own_name(name: str, beside: Sequence[Any]) -> str:
    """The name; with a number behind it, such as `plain_2`, if another corpus has the name."""
    names = {corpus.get("name") for corpus in beside if isinstance(corpus, Mapping)}
    numbered = (f"{name}_{number}" for number in count(2))
    return name if name not in names else next(one for one in numbered if one not in names)


def _parts(train: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of all phases; a phase written flat is one."""
    return [part for phase in train.get("phases") or [] for part in phase.get("parts") or [phase]]


def _on_pairs(part: Mapping[str, Any]) -> bool:
    return _source(part) in (_PAIRS, _QUERIES)


def _on_itself(part: Mapping[str, Any]) -> bool:
    rows = part.get("rows")
    others = isinstance(rows, Mapping) and {"positive", "draw"} & rows.keys()
    return _source(part) == "anchors" and not others


def _source(part: Mapping[str, Any]) -> Any:
    rows = part.get("rows")
    return rows.get("from") if isinstance(rows, Mapping) else rows


def _fit_queries(content: dict[str, Any], described: Description, kind: str) -> str:
    """Trains on the queries that the corpus has; returns the key of `_HOW` that describes them.

    kind: the kind of its rows if it has neither titles nor pairs.
    """
    if not described.titled:
        methods = {k: v for k, v in content["synthesise"].items() if k not in _TITLES}
        content["synthesise"] = methods
        if not methods and described.shape != "paragraphs":
            for key in ("synthesise", "evaluator", "embed", "select"):
                content.pop(key, None)
        if described.shape == "pairs":
            _train_on(content, {"rows": _PAIRS})
            return kind
        if kind == "paragraphs" and not content.get("evaluator"):
            kind = "sentences"  # nothing would judge a sentence's surroundings
        _without_pairs(content, kind)
        return kind
    if described.shape != "pairs" or _TITLES[0] in map(str.lower, described.pair or ()):
        return _QUERIES
    _train_on(content, {}, {"name": "pairs", "rows": _PAIRS})
    return "queries and pairs"


def _train_on(content: dict[str, Any], *changes: Mapping[str, Any]) -> None:
    """Replaces the part that trains on natural pairs by one part for each of these changes."""

    def changed(phase: Mapping[str, Any]) -> dict[str, Any]:
        if "parts" not in phase:
            return {**phase, **changes[0]} if _on_pairs(phase) else dict(phase)
        parts = [
            {**part, **change}
            for part in phase["parts"]
            for change in (changes if _on_pairs(part) else ({},))
        ]
        return {**phase, "parts": parts}

    content["train"] = {**content["train"], "phases": [*map(changed, content["train"]["phases"])]}


def _without_surroundings(content: dict[str, Any]) -> None:
    """Removes keys that need other sentences of the same document."""
    content["sample"] = {
        k: v for k, v in (content.get("sample") or {}).items() if k != "min_context_sentences"
    }
    methods = content.get("synthesise") or {}
    content["synthesise"] = {k: v for k, v in methods.items() if k not in SURROUNDINGS}
    select = dict(content.get("select") or {})
    if thresholds := select.get("methods"):
        select["methods"] = {k: v for k, v in thresholds.items() if k not in SURROUNDINGS}
    content["select"] = select
    for key in ("sample", "synthesise", "select"):
        if not content[key]:
            del content[key]


def _without_pairs(content: dict[str, Any], kind: str) -> None:
    """Trains on rows of the corpus's sentences in place of natural pairs."""
    _train_on(content, {"rows": _ROWS[kind]})
    domain, *others = content["corpora"]
    sample = content.get("sample") or {}
    if others and "rows" in sample:
        # The other corpora keep the number of anchors that equal shares gave them.
        content["corpora"] = [{**domain, "share": _SHARE}, *others]
        each = sample["rows"] / (1 + len(others))
        content["sample"] = {**sample, "rows": round(each * (_SHARE + len(others)))}
    if kind == "paragraphs":
        added = {method: {"role": "domain"} for method in SURROUNDINGS}
        content["synthesise"] = added | (content.get("synthesise") or {})
        if not content.get("evaluator"):
            return  # a judge decides, which has no say on texts on a topic
        select = content.get("select") or {}
        relations = {"topic": {"positive_min": _ON_TOPIC}} | (select.get("relations") or {})
        content["select"] = {**select, "relations": relations}


def _said(described: Description, how: str, evaluate: Mapping[str, Any]) -> str:
    """A line about the choices and their reasons. evaluate: the fitted recipe's `evaluate`."""
    source = f"{described.counted} of "
    if described.pair is not None:
        source += f"pairs ({' and '.join(map(repr, described.pair))})"
    elif described.paired:
        source += "text with natural pairs"
    else:
        kind = "single sentences" if described.shape == "sentences" else "several sentences"
        source += kind + (f" (column {described.text!r})" if described.text is not None else "")
    measures = ["the held-out pairs"] if evaluate.get("retrieval") else []
    measures += ["held-out texts cut in two"] if evaluate.get("halves") else []
    if described.labels:
        column, values = next(iter(described.labels.items()))
        shown = ", ".join(values[:5]) + (", …" if len(values) > 5 else "")
        measures.append(f"column {column!r} ({shown}), which never trains")
    sentence = f"{described.source}: {source}; {how}"
    if measures:
        listed = [", ".join(measures[:-1]), measures[-1]] if measures[1:] else measures
        sentence += f"; measured by {' and '.join(listed)}"
    return f"{sentence}."
