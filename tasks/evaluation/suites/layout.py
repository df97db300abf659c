"""Shared by the readers of all suites: a suite's place, its lines, their form, a digest."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeGuard

from tercet.models.text.words import encodable
from tercet.tasks.stage import PACKAGE, BadInput, file_path

Split = Literal["dev", "test"]

# The folders of a suite: SentEval's, and two of ours.
FOLDERS = ("STS", "SICK", "MR", "CR", "SUBJ", "MPQA", "SST", "TREC", "MRPC", "reranking", "pairs")

_SPACED_END = re.compile(r"\s[.?!]$")
_JOINED_END = re.compile(r"[^\s.?!][.?!]$")


def suite_root(directory: Path) -> Path:
    """The directory that holds the sets: the given one, or `downstream` inside it.

    Raises: BadInput if it holds no sets.
    """
    places = [directory, directory / "downstream", directory / "data" / "downstream"]
    for place in places:
        if any((place / folder).is_dir() for folder in FOLDERS):
            return place
    what = (
        f"holds neither STS nor SICK nor any of {', '.join(FOLDERS[2:])}"
        if directory.is_dir()
        else "does not exist"
    )
    raise BadInput(
        "missing_file",
        f"The suite's directory {str(directory)!r} {what}: give one in SentEval's layout "
        "(downstream/STS/STS12-en-test/…, downstream/SICK/…).",
    )


def needed(root: Path, names: Iterable[str]) -> dict[str, Path]:
    """The files in `names` by their path inside the suite. Raises BadInput for a missing file."""
    paths = {name: root / name for name in names}
    for path in paths.values():
        if not path.is_file():
            raise BadInput(
                "missing_file",
                f"The file {str(path)!r} is missing from the suite: add it, or leave its task out "
                "of `tasks`.",
            )
    return paths


def lines(path: Path, fallback: str | None = None) -> list[str]:
    """The lines of a file, cut at line feeds only, since a text may hold other separators.

    fallback: the encoding of a file that is not UTF-8; without it such a file is refused.
    """
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if fallback is None:
            line = data[: error.start].count(b"\n") + 1
            raise BadInput(
                "unreadable", f"{path}, line {line}: not UTF-8; convert the file."
            ) from None
        text = data.decode(fallback)
    split_lines = [line.removesuffix("\r") for line in text.split("\n")]
    return split_lines[:-1] if split_lines and split_lines[-1] == "" else split_lines


def locate(file: str, what: str, holds: str) -> Path:
    """The user's own file, or `package:PACKAGE/FILE`, a file inside an installed package.

    what: its rows, and the recipe's key that names it. holds: its columns, in words.
    Raises BadInput if it does not exist.
    """
    path = file_path(file)
    if not path.is_file():
        raise BadInput(
            "missing_file",
            f"The file {file!r} of {what} does not exist: give the path of a table with "
            f"{holds}, or {PACKAGE}PACKAGE/FILE.",
        )
    return path


def columns(line: str, least: int, path: Path, number: int) -> list[str]:
    """The line's columns. Raises BadInput if there are too few."""
    cells = line.split("\t")
    if len(cells) < least:
        raise BadInput(
            "bad_row",
            f"{path}, line {number}: {len(cells)} columns separated by tabs where {least} are "
            "needed.",
        )
    return cells


def table_rows(
    path: Path, least: int, texts: Sequence[int] = (), first: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Number and columns of each line from the `first` on. texts: columns that hold text.

    Raises: BadInput as `columns` and `check_texts`.
    """
    for number, line in enumerate(lines(path)[first - 1 :], first):
        cells = columns(line, least, path, number)
        check_texts([cells[place] for place in texts], path, number)
        yield number, cells


def check_texts(texts: Sequence[str], path: Path, number: int) -> None:
    """Raises BadInput if a text is empty."""
    if not all(text.strip() for text in texts):
        raise BadInput("bad_row", f"{path}, line {number}: a sentence is empty.")


def is_text(value: object) -> TypeGuard[str]:
    """Whether UTF-8 can encode it and it is not blank: JSON can escape half of a surrogate pair."""
    return isinstance(value, str) and bool(value.strip()) and encodable(value)


def text_in(values: Mapping[str, Any], column: str, where: str) -> str:
    """The text in a row's column. Raises BadInput if there is none."""
    value = values.get(column)
    if not is_text(value):
        raise BadInput("bad_row", f"{where}: {column} holds no text.")
    return value


def text_form(texts: Sequence[str]) -> str:
    """How the texts were preprocessed: `raw`, `lower`, `tokenised` or `tokenised lower`.

    Lower-cased when no letter is a capital; tokenised when most final stops stand alone.
    """
    spaced = sum(1 for text in texts if _SPACED_END.search(text))
    joined = sum(1 for text in texts if _JOINED_END.search(text))
    lower = all(text == text.lower() for text in texts)
    words = [*(["tokenised"] if spaced > joined else []), *(["lower"] if lower else [])]
    return " ".join(words) or "raw"


def content_digest(rows: Iterable[Sequence[str]]) -> str:
    """Digest over rows of texts, 16 hex digits: the same for the same content anywhere."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(("\t".join(row) + "\n").encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def named_files(root: Path, folder: str, suffixes: Sequence[str]) -> dict[str, Path]:
    """The files of a folder with one file per task, by task. Raises BadInput for a second one."""
    files: dict[str, Path] = {}
    for path in sorted((root / folder).glob("*")):
        stem = path.name
        for compression in (".gz", ".zst"):
            stem = stem.removesuffix(compression)
        suffix = next((s for s in suffixes if stem.endswith(s)), None)
        if suffix is None or not path.is_file() or stem.startswith("."):
            continue
        name = stem.removesuffix(suffix)
        if name in files:
            raise BadInput(
                "conflict",
                f"{str(root / folder)!r} holds {files[name].name} and {path.name}, two files of "
                f"one task {name!r}: remove one.",
            )
        files[name] = path
    return files


def named_file(root: Path, folder: str, suffixes: Sequence[str], name: str) -> Path:
    """The file of the task `name`. Raises BadInput if there is none."""
    files = named_files(root, folder, suffixes)
    if name not in files:
        names = f"; there are {', '.join(files)}" if files else ""
        raise BadInput(
            "missing_file",
            f"The file {str(root / folder / name) + suffixes[0]!r} is missing from the suite"
            f"{names}: add it, or leave its task out of `tasks`.",
        )
    return files[name]
