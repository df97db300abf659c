"""A retrieval set in BEIR's layout."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_beir(
    folder: Path,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    grades: Mapping[str, Sequence[tuple[str, str, int]]],
) -> Path:
    """documents, queries: texts by id. grades: by split, (query, document, grade)."""
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", documents), ("queries", queries)):
        rows = [{"_id": key, "title": "", "text": text} for key, text in texts.items()]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, judged in grades.items():
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in judged)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder
