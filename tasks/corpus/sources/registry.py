"""Which module reads which source. A stage's code includes only the readers it uses.

A reader is a module with the functions of `reader.Reader`; a new one needs its module and a line
here.
"""

from collections.abc import Mapping

UNVERSIONED = True

_HERE = "tercet.tasks.corpus.sources"

FILES = f"{_HERE}.files"
# A source's whole name, or its beginning up to a colon. Whatever is not listed is a file or a glob.
READERS: Mapping[str, str] = {
    "pydocs": f"{_HERE}.pydocs",
    "hf:": f"{_HERE}.hub",
    "lmf:": f"{_HERE}.lmf",
}
# What follows such a beginning.
_BEHIND = {"hf:": "NAME", "lmf:": "FILE.xml"}


def module_of(source: str) -> str:
    """The module that reads the source."""
    for name, module in READERS.items():
        if source == name or (name.endswith(":") and source.startswith(name)):
            return module
    return FILES


def known_sources() -> str:
    """The forms of a source, for messages."""
    named = [f"{name}{_BEHIND.get(name, '')}" for name in READERS]
    return f"a file, a folder, a glob, {', '.join(named[:-1])} or {named[-1]}"
