"""A recipe's content as a commented YAML file, checked before it is written."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import Reader

from tercet.flows.recipe import file as recipe_file
from tercet.models.text.words import fold
from tercet.storage.store import check_outside, clear_errors
from tercet.tasks.stage import BadInput

LINE = 100

COMMENTS: Mapping[str, str] = {
    "name": "A name for the runs of this recipe: tercet ls, tercet sql --run NAME.",
    "seed": "Every random choice follows from it.",
    "backbone": "The encoder to start from: a directory, package:PACKAGE/FOLDER, or a hub name.",
    "corpora": "One corpus or several; roles and shares decide how many sentences each provides.",
    "ingest": (
        "Sentences outside these bounds, in words, are rejected. test and dev are the shares of "
        "documents to hold out."
    ),
    "sample": (
        "rows: how many sentences of all corpora become anchors. Raising it reuses earlier results."
    ),
    "synthesise": (
        "The methods that make positives and negatives, each with an optional weight and params. "
        "Some keep the sentence's meaning (cutoff), some alter it (entity_swap, quantity_change, "
        "antonym, negation), and some stay on its topic (rest_of_paragraph). role: of which "
        "corpora's sentences."
    ),
    "evaluator": (
        "The frozen model that scores candidates against their sentence. `fit: {}` instead of "
        "`model` trains one on this corpus first (unsupervised SimCSE)."
    ),
    "select": (
        "A positive must be at least this similar, a negative at most. Look at both before you "
        'change them: tercet sql "FROM scores JOIN candidates USING (candidate_id)".'
    ),
    "train": "max_length is in tokens. A processor without bf16 computes in fp32.",
    "evaluate": (
        "What the encoder is evaluated on, before and after. retrieval: a natural pair's query "
        "finds its answer. halves: a held-out text's first half finds its second half."
    ),
    "run": "How the run is executed. Nothing here changes a result.",
}

# Comments of a recipe for a search, in place of those in COMMENTS.
SEARCH_COMMENTS: Mapping[str, str] = {
    "ingest": (
        "Sentences outside these bounds, in words, are rejected. test and dev are the shares of "
        "documents to hold out. passages: what a search finds; tokens: of the longest."
    ),
    "synthesise": (
        "What a search would ask. title and heading: those of the documents, for the passage below."
    ),
    "evaluator": "The frozen model that scores queries against their passage.",
    "select": (
        "A query and its passage must be at least this similar. See what was refused: tercet sql "
        "\"FROM rejects WHERE stage = 'select'\"."
    ),
    "train": "max_length is in tokens, and no less than a passage has.",
}


def check_output(path: Path, text: str | None = None) -> None:
    """Raises BadInput if the file exists with another text, or if its directory does not exist."""
    check_outside(path)
    same = text is not None and path.is_file() and path.read_bytes() == text.encode()
    if path.exists() and not same:
        raise BadInput("exists", f"{path} exists and was not overwritten: name another file.")
    if not path.parent.is_dir():
        raise BadInput(
            "missing_file", f"There is no directory {path.parent}: make it, or name another file."
        )


def write(path: Path, text: str) -> None:
    """Validates the recipe, then writes it to a new file. Raises BadInput."""
    check_output(path)
    with tempfile.TemporaryDirectory() as folder:
        tried = Path(folder) / path.name
        tried.write_text(text, encoding="utf-8")
        recipe_file.load(str(tried))
    with clear_errors(path):
        try:
            target = path.open("x", encoding="utf-8")
        except FileExistsError:
            check_output(path)
            raise
        try:
            with target:
                target.write(text)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def recipe_text(
    content: Mapping[str, Any],
    heading: str,
    comments: Mapping[str, str] = COMMENTS,
    more: Mapping[str, str] | None = None,
    hints: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The file's text: the heading, then key after key with its comment.

    comments: by key. more: by key, an addition to its comment. hints: by key, lines to uncomment;
    lines of keys that the recipe lacks stand at its end, with the key.
    """
    blocks = [comment(heading)]
    for key, value in content.items():
        words = " ".join(filter(None, (comments.get(key), (more or {}).get(key))))
        lines = [comment(words)] if words else []
        written = as_yaml({key: value}).split("\n")
        indent = "    " if isinstance(value, list) else "  "
        # The hints of a list stand in its first entry.
        entries = [n for n, line in enumerate(written) if line.startswith("  - ")]
        place = entries[1] if isinstance(value, list) and entries[1:] else len(written)
        written[place:place] = [f"{indent}# {hint}" for hint in (hints or {}).get(key, ())]
        blocks.append("\n".join([*lines, *written]))
    left = [hint for key, lines in (hints or {}).items() if key not in content for hint in lines]
    if left:
        blocks.append("\n".join(f"# {hint}" for hint in left))
    return "\n\n".join(blocks) + "\n"


def as_yaml(value: Mapping[str, Any]) -> str:
    """The mapping as people write YAML: lists indented, bare keys for null, a string a line."""
    text = yaml.dump(
        dict(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=LINE, indent=2
    )
    return text.rstrip("\n")


class _Dumper(yaml.SafeDumper):
    """Indents all lists, also below top-level keys."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _nothing(dumper: yaml.SafeDumper, value: None) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:null", "")


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # In quotation marks, a line break is an escape and no new line of the file.
    style = None if value.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(type(None), _nothing)
_Dumper.add_representer(str, _string)


def comment(text: str) -> str:
    """The text in comment lines of bounded length, without what YAML forbids in comments."""
    words, lines = fold(Reader.NON_PRINTABLE.sub(" ", text)).split(), ["#"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) > LINE:
            lines.append("#")
        lines[-1] += f" {word}"
    return "\n".join(lines)
