"""`tercet sql` over ten million triplets, beside DuckDB over one bare Parquet file.

    python benchmarks/sql_scale.py [--rows 10000000] [--store DIR]

Writes a store of made-up rows with the real schemas, in parts of 20,000 as a run writes them: a
candidate for each triplet, its generation, a reject for each fifth, a sentence for five. Each query
is asked three times by a process of its own, as typed, and three times in a process that has the
tables open already; the least counts. DuckDB alone answers the same from one Parquet file a table
that DuckDB wrote, in an open connection. 10 million rows take about 3 GB of disk, and as much again
for the bare files.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from many_parts import tercet

from tercet.flows.results.queries import connect
from tercet.storage import runs
from tercet.storage.artifacts import artifacts_of, open_artifact
from tercet.storage.part_writer import PartWriter
from tercet.storage.store import Store, is_store, open_store
from tercet.tasks.stages import known_schemas

PART = 20_000
VERSION = "0" * 16
METHODS = ["negation", "entity_swap", "quantity_change", "antonym", "cutoff"]
REASONS = ["above_negative_max", "below_positive_min", "surplus", "duplicate", "same_text"]
STEPS = {
    "sentences": "ingest",
    "documents": "ingest",
    "generations": "synthesise",
    "candidates": "parse",
    "triplets": "select",
    "rejects": "select",
}
QUERIES = {
    "count by method": "SELECT negative_method, count(*) AS n FROM triplets GROUP BY 1 ORDER BY 2",
    "why most were refused": (
        "SELECT stage, reason, count(*) AS n FROM rejects GROUP BY ALL ORDER BY n DESC LIMIT 10"
    ),
    "a random hundred, by their ids": (
        "SELECT anchor, positive, negative FROM triplets "
        "WHERE triplet_id >= md5_number_lower('any word') ORDER BY triplet_id LIMIT 100"
    ),
    "a random hundred, by sampling": (
        "SELECT anchor, positive, negative FROM triplets USING SAMPLE 100"
    ),
    "where one comes from": (
        "SELECT t.anchor, t.negative, c.method, c.detail.old, g.prompt, s.corpus, d.path "
        "FROM triplets t JOIN candidates c ON c.candidate_id = t.negative_id "
        "JOIN generations g USING (generation_id) "
        "JOIN sentences s ON s.sentence_id = t.sentence_id "
        "JOIN documents d ON d.doc_id = s.doc_id WHERE t.triplet_id = {triplet_id}"
    ),
}

Rows = dict[str, pa.Array | pa.ChunkedArray]


def ids(kind: int, numbers: np.ndarray) -> pa.Array:
    """Ids of these numbers as of random texts: splitmix64, which gives no two the same."""
    with np.errstate(over="ignore"):
        bits = (numbers.astype(np.uint64) + np.uint64(kind << 40)) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return pa.array(bits ^ (bits >> np.uint64(31)))


def texts(draws: np.random.Generator, count: int) -> pa.Array:
    """So many sentences of twelve words out of two thousand."""
    words = pa.array([f"w{number:x}ord" for number in range(2_000)])
    columns = [words.take(pa.array(draws.integers(0, 2_000, count))) for _ in range(12)]
    return pc.binary_join_element_wise(*columns, " ")


def choices(draws: np.random.Generator, names: list[str], count: int) -> pa.Array:
    """So many of these names, each less frequent than the one before."""
    return pa.array(names).take(pa.array(draws.geometric(0.5, count).clip(max=len(names)) - 1))


def numbers(total: int) -> Iterator[tuple[np.random.Generator, np.ndarray]]:
    """The numbers of each part's rows, with draws of its own."""
    for start in range(0, total, PART):
        yield np.random.default_rng(start), np.arange(start, min(total, start + PART))


def sentences(total: int) -> Iterator[Rows]:
    for draws, n in numbers(total):
        ids_, corpus = ids(1, n), pa.repeat("made", len(n))
        split = choices(draws, ["train", "dev", "test"], len(n))
        yield {"sentence_id": ids_, "text": texts(draws, len(n)), "corpus": corpus, "split": split,
               "doc_id": ids(2, n // 40)}  # fmt: skip


def documents(total: int) -> Iterator[Rows]:
    for _, n in numbers(total):
        path = pc.binary_join_element_wise("made", pa.array(n).cast(pa.string()), "/")
        yield {"doc_id": ids(2, n), "path": path, "corpus": pa.repeat("made", len(n))}


def generations(total: int) -> Iterator[Rows]:
    for draws, n in numbers(total):
        yield {"generation_id": ids(3, n), "sentence_id": ids(1, n // 5),
               "purpose": pa.repeat("negative", len(n)), "raw": texts(draws, len(n)),
               "method": choices(draws, METHODS, len(n))}  # fmt: skip


def candidates(total: int) -> Iterator[Rows]:
    for draws, n in numbers(total):
        yield {"candidate_id": ids(4, n), "generation_id": ids(3, n), "sentence_id": ids(1, n // 5),
               "role": pa.repeat("negative", len(n)), "method": choices(draws, METHODS, len(n)),
               "relation": pa.repeat("entailment", len(n)), "anchor": texts(draws, len(n)),
               "text": texts(draws, len(n))}  # fmt: skip


def triplets(total: int) -> Iterator[Rows]:
    # As `select` writes them, in the order of their ids.
    order = np.argsort(ids(5, np.arange(total)).to_numpy())
    for draws, place in numbers(total):
        n = order[place]
        yield {"triplet_id": ids(5, n), "sentence_id": ids(1, n // 5), "negative_id": ids(4, n),
               "positive_id": ids(4, (n + 1) % total), "anchor": texts(draws, len(n)),
               "positive": texts(draws, len(n)), "negative": texts(draws, len(n)),
               "negative_method": choices(draws, METHODS, len(n)),
               "negative_similarity": pa.array(draws.random(len(n)))}  # fmt: skip


def rejects(total: int) -> Iterator[Rows]:
    for draws, n in numbers(total):
        yield {"stage": pa.repeat("select", len(n)), "row_id": ids(6, n),
               "reason": choices(draws, REASONS, len(n)), "text": texts(draws, len(n))}  # fmt: skip


def write(store: Store, step: str, tables: dict[str, Iterator[Rows]]) -> None:
    """A finished artifact of these tables, in parts as large as a run's."""
    artifact = open_artifact(store, step, VERSION)
    known = known_schemas()
    schemas = {name: known[name] for name in tables}
    waiting, index = dict(tables), 0
    while waiting:
        with PartWriter(artifact.scratch() / f"part{index}", schemas, PART) as writer:
            for name in list(waiting):
                rows = next(waiting[name], None)
                if rows is None:
                    del waiting[name]
                    continue
                count = len(next(iter(rows.values())))
                nulls = {field.name: pa.nulls(count, field.type) for field in schemas[name]}
                writer.emit(name, pa.table(nulls | rows))
            artifact.commit(index, writer.close(), f"{step}{index}", {})
        index += 1
    artifact.adopt_plan([{} for _ in range(index)])
    artifact.finish({"stage": step, "components": {}, "inputs": []})


def make(store: Store, total: int) -> None:
    """A store of one run, of so many triplets."""
    run = runs.start_run(store, "made", {}, {})
    steps = {
        "ingest": {"sentences": sentences(total // 5), "documents": documents(total // 200)},
        "synthesise": {"generations": generations(total)},
        "parse": {"candidates": candidates(total)},
        "select": {"triplets": triplets(total), "rejects": rejects(total // 5)},
    }
    for step, tables in steps.items():
        began = time.monotonic()
        write(store, step, tables)
        seconds = time.monotonic() - began
        print(f"{step} written in {seconds:.0f} s", flush=True)
        entry = {"stage": step, "version": VERSION, "state": "made", "seconds": seconds}
        runs.record_step(store, run, step, entry | {"tables": dict.fromkeys(tables, 0)})
    runs.end_run(store, run, "done", {})


def least(ask: Callable[[], object]) -> float:
    """The least seconds of three times."""
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        ask()
        seconds.append(time.monotonic() - began)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--store", help="where to leave it, and to find it made")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.store and str(Path(options.store).parent)) as scratch:
        place = options.store or f"{scratch}/store"
        if not is_store(place):
            make(open_store(place), options.rows)
        store = open_store(place)
        size = sum(stat.bytes for stat in store.stats("artifacts").values())
        print(f"{options.rows:,} triplets, {size / 2**30:.1f} GiB", flush=True)
        with connect(store, None) as ours, duckdb.connect() as bare:
            for table in STEPS:
                file = f"{scratch}/{table}.parquet"
                (artifact,) = artifacts_of(store, STEPS[table])
                bare.execute(f"COPY (FROM {artifact.rows().sql(table)}) TO '{file}'")
                bare.execute(f"CREATE VIEW {table} AS FROM '{file}'")
            middle = f"SELECT triplet_id FROM triplets LIMIT 1 OFFSET {options.rows // 2}"
            ((triplet_id,),) = bare.sql(middle).fetchall()
            print("query: as typed, tables open, bare DuckDB (s)")
            for name, text in QUERIES.items():
                query = text.format(triplet_id=triplet_id)
                ways = (
                    lambda query=query: tercet("sql", query, "--store", place),
                    lambda query=query: ours.sql(query).fetchall(),
                    lambda query=query: bare.sql(query).fetchall(),
                )
                print(f"{name}: {', '.join(f'{least(ask):.2f}' for ask in ways)}", flush=True)


if __name__ == "__main__":
    main()
