"""Documents of other programs as HTML: by pandoc or pdfium, in a process of its own."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tercet.tasks.corpus.sources import pdf
from tercet.tasks.corpus.sources.streams import DOCUMENTS, format_of, open_bytes

# Bytes of a file, and what its process may take. Pandoc's own bound is that of its heap.
_LARGEST, _SECONDS, _MEGABYTES = 200_000_000, 60, 2_000


def version(form: str) -> str:
    """The library that reads a format, and its version; empty where Tercet reads it itself."""
    if form not in DOCUMENTS:
        return ""
    distribution = "pypdfium2" if form == ".pdf" else "pypandoc-binary"
    return f" {distribution} {metadata.version(distribution)}"


def html_of(path: Path) -> str:
    """A document as HTML.

    Raises:
        BadInput: as `open_bytes`.
        ValueError: the document is damaged, or takes too much time or memory: why.
    """
    import pypandoc

    form, _ = format_of(path)
    with open_bytes(path) as stream:
        raw = stream.read(_LARGEST + 1)
    if len(raw) > _LARGEST:
        raise ValueError(f"it is longer than {_LARGEST} bytes")
    command = [sys.executable, "-P", pdf.__file__, str(_MEGABYTES)]
    if form != ".pdf":
        command = [
            pypandoc.get_pandoc_path(),
            "--sandbox",
            "--standalone",
            "--to",
            "html",
            "--from",
        ]
        # Without a title of their own, pages would be called "-".
        command += [
            DOCUMENTS[form],
            "--variable",
            "pagetitle= ",
            "+RTS",
            f"-M{_MEGABYTES}m",
            "-RTS",
        ]
    try:
        done = subprocess.run(command, input=raw, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise ValueError(f"reading it takes longer than {_SECONDS} seconds") from None
    if done.returncode:
        messages = done.stderr.decode("utf-8", "replace").split("\n")
        lines = [line.strip() for line in messages if line.strip()]
        raise ValueError(lines[-1] if lines else f"its reader ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
