"""Pages, a recipe that trains on them, and the place of a table of questions to them."""

from pathlib import Path
from typing import Any

import yaml
from tiny_run import Tiny, documents

COUNT = 40


def write_pages(tiny: Tiny, folder: Path, **changes: Any) -> list[str]:
    """Writes the pages and the recipe; the words that run it. The questions go into `mine.csv`."""
    (folder / "pages").mkdir(exist_ok=True)
    for number, row in enumerate(documents(COUNT, seed=3)):
        text = f"# Report {number}\n\n{row['query']}\n\n## More\n\n{row['answer']}\n"
        (folder / "pages" / f"page{number:02}.md").write_text(text)
    content = yaml.safe_load(tiny.recipe.read_text())
    content |= {
        "corpora": [{"name": "pages", "source": str(folder / "pages")}],
        "ingest": {"test": 0.2, "dev": 0.05, "passages": {"tokens": 48}},
        "evaluate": {
            "retrieval": False,
            "bootstrap": 200,
            "retrieval_sets": str(folder / "mine.csv"),
        },
    }
    content["train"]["phases"] = [{"rows": "pairs", "loss": "info_nce", "max_steps": 2}]
    content["train"]["choose"] = None
    file = folder / "asked.yaml"
    file.write_text(yaml.safe_dump(content | changes, sort_keys=False))
    return ["run", str(file), "--no-server", "--store", str(folder / "store")]
