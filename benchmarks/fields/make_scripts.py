"""A Chinese and a Japanese folder, each of 36 pages with 30 questions, from `scripts/`.

    python benchmarks/fields/make_scripts.py FIELDS

Then, in each folder: `tercet init docs --questions questions.csv` and `tercet run recipe.yaml`.
"""

import csv
import sys
from pathlib import Path

for table in sorted((Path(__file__).parent / "scripts").glob("*.tsv")):
    folder = Path(sys.argv[1]) / table.stem
    (folder / "docs").mkdir(parents=True)
    questions = [("question", "file")]
    with table.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file, delimiter="\t")):
            page = f"{number:02}.md"
            text = f"# {row['title']}\n\n{row['text']}\n"
            (folder / "docs" / page).write_text(text, encoding="utf-8")
            if row["question"]:
                questions.append((row["question"], page))
    with (folder / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(questions)
