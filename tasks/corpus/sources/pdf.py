"""A program that turns PDF on standard input into HTML, by pdfium, within a limit of memory.

Each page has the place `page=N`; the bookmarks that lead to it are its headings, none of which is
the document's title.
"""

import re
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from html import escape

# pdfium's characters for a hyphen at the end of a line within a word.
_HYPHEN = re.compile("[\x02\ufffe]\\s*")
_SHORT = 0.8  # the most of a page's longest line that a paragraph's last line may have


def _parts(data: bytes) -> Iterator[str]:
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    bookmarks = defaultdict[int, dict[str, int]](dict)
    for bookmark in document.get_toc():
        if (place := bookmark.get_dest()) is not None and (at := place.get_index()) is not None:
            bookmarks[at][" ".join(bookmark.get_title().split())] = min(bookmark.level + 2, 6)
    for at, page in enumerate(document):
        yield f'<div id="page={at + 1}">'
        text = _HYPHEN.sub("", page.get_textpage().get_text_range())
        lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
        # A heading that is not a line of the page is put at its top.
        for title, level in bookmarks[at].items():
            if title not in lines:
                yield f"<h{level}>{escape(title)}</h{level}>"
        longest = max(map(len, lines), default=0)
        for line in lines:
            if level := bookmarks[at].get(line, 0):
                yield f"<h{level}>{escape(line)}</h{level}>"
                continue
            ends = line[-1] in ".:!?" and len(line) < _SHORT * longest
            yield escape(line) + ("<p>" if ends else "\n")
        yield "</div>"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]) << 20,) * 2)
    sys.stdout.buffer.writelines(part.encode() for part in _parts(sys.stdin.buffer.read()))
