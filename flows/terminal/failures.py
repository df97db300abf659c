"""Failures as the terminal shows them: one sentence and an exit code."""

import errno
import re

import typer

from tercet.errors import TercetError
from tercet.flows.formatting import printable
from tercet.flows.recipe.secrets import LOGIN

# The words of the system, and of numpy's `tofile`, which keeps no error number.
_NO_SPACE = re.compile(r"No space left on device|\d+ requested and \d+ written")
_ARTIFACT = re.compile(r"\bartifacts/[^/\s]+/[0-9a-f]{16}/[^\s'\"]+")


class StageFailed(TercetError):
    """A stage failed: one sentence, and the command that resumes the run; exit code 1."""

    exit_code = 1


def exit_code(error: BaseException) -> int:
    """0 done; 1 a stage failed or the disk is full; 2 bad input or usage; 3 done, but the verdict
    does not meet `run.require`; 130 interrupted.
    """
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return 130
    if isinstance(error, TercetError):
        return error.exit_code
    return 2 if _wrong_usage(error) else 1


def describe_failure(error: BaseException) -> str:
    """One line that describes the failure; of a recipe with several faults, a line each."""
    if _wrong_usage(error):
        context = getattr(error, "ctx", None)
        command = "tercet" if context is None else context.command_path
        return printable(f"{error.format_message()} ({command} --help)")  # type: ignore[attr-defined]
    # An address may hold a login, and a library's message the address.
    # A recipe's faults have a line each.
    lines = [" ".join(line.split()) for line in getattr(error, "lines", [str(error)])]
    text = printable(re.sub(LOGIN, "://", "\n".join(lines)))
    if _says_all(error):
        return text
    if _is_full_disk(error):
        return "The disk is full: free some space and run the same command again."
    if (gone := _gone(text)) is not None:
        return (
            f"The file {gone} is gone from the store: `tercet gc --delete` took it meanwhile, or "
            "somebody removed it; `tercet ls` shows what there is, and a run makes it anew."
        )
    return f"{type(error).__name__}: {text or 'no message'} (--debug shows where)"


def with_kind(error: BaseException) -> str:
    """The line that a command ends with, and in brackets the kind of error, for programs."""
    line = describe_failure(error)
    return f"{line} [{error.kind}]" if isinstance(error, TercetError) else line


def is_foreseen(error: BaseException) -> bool:
    """Whether its one line says what to do, so that no traceback is needed."""
    return _says_all(error) or _is_full_disk(error) or _gone(str(error)) is not None


def _says_all(error: BaseException) -> bool:
    return isinstance(error, TercetError) and bool(str(error).strip())


def _is_full_disk(error: BaseException) -> bool:
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    return full or _NO_SPACE.search(str(error)) is not None


def _gone(text: str) -> str | None:
    """The file of an artifact, below its store, that could not be read since it is not there."""
    match = _ARTIFACT.search(text) if "No such file" in text or "No files found" in text else None
    return None if match is None else match[0]


def _wrong_usage(error: BaseException) -> bool:
    """Whether the command line could not be parsed (typer vendors its own click)."""
    return hasattr(error, "format_message")
