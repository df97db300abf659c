from pathlib import Path

from tercet.tasks.corpus.sources import files
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document

PAGE = """\
---
title: Herons
---
# Herons of the lake

The *grey* heron [waits](https://example.org) in `shallow`
water. It is **patient**.

```python
import heron
```

- It eats fish.
- It sleeps standing.

| a | b |
|---|---|
| 1 | 2 |

Snake_case_words and 2 * 3 * 4 stay.
"""


def test_a_folder_of_markdown_becomes_prose(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".hidden").mkdir()
    for name in ("a.md", "sub/b.md", ".hidden/c.md"):
        (tmp_path / name).write_text(PAGE)
    (tmp_path / "requirements.txt").write_text("numpy\n")
    found = list(files.read(CorpusConfig(name="n", source=str(tmp_path)), 10_000))
    assert [document.path.split(":")[0] for document in found] == ["a.md", "sub/b.md"]
    assert isinstance(found[0], Document)
    assert found[0].paragraphs == [
        ["Herons of the lake"],
        ["The grey heron waits in shallow water.", "It is patient."],
        ["It eats fish."],
        ["It sleeps standing."],
        ["Snake_case_words and 2 * 3 * 4 stay."],
    ]
