"""The readers by the sources that they read. A new one is a module, and a line here."""

from collections.abc import Mapping

from tercet.models.plugins import with_installed
from tercet.tasks.corpus.sources import files, hub, lmf, pydocs
from tercet.tasks.corpus.sources.reader import Reader

UNVERSIONED = True

# Any other source is a file or a glob.
READERS: Mapping[str, Reader] = with_installed(
    "tercet.readers", (pydocs.READER, hub.READER, lmf.READER)
)


def reader_of(source: str) -> Reader:
    """The reader of the source."""
    for name, reader in READERS.items():
        if source == name or (name.endswith(":") and source.startswith(name)):
            return reader
    return files.READER


def known_sources() -> str:
    """The forms of a source, for messages."""
    *forms, last = (reader.form or reader.name for reader in (files.READER, *READERS.values()))
    return f"{', '.join(forms)} or {last}"
