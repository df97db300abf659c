"""Stage `paraphrase`: a generator's rewritings of labelled pairs, for `measure_generators`.

Texts are drawn in this process by the generator's own settings, without a server: a generator that
vLLM serves is measured with transformers.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import Field

from tercet.models import seeding
from tercet.models.generators.settings import Decoding
from tercet.models.machine import Precision
from tercet.models.seeding import sample
from tercet.tasks.stage import BadInput, Config, Stage, Work
from tercet.tasks.training.generator_pairs import Above, paraphrases

GENERATOR_TEXTS = pa.schema(
    [
        ("generator", pa.string()),
        ("row_id", pa.uint64()),
        ("source", pa.string()),
        ("target", pa.string()),
        ("number", pa.int32()),
        ("text", pa.string()),
    ]
)
"""Table `generator_texts`. What each generator wrote for `generator_metrics`.

Columns:
    generator: its name under `generators`
    row_id: the pair, in `labelled`
    source: what was rewritten
    target: the pair's other text
    number: of the text among those of its source, from 0
    text: what was written
"""


class PairsToMeasure(Config):
    """The pairs on which generators are measured, and how often each source is rewritten."""

    corpora: tuple[str, ...] = Field(default=(), description="Labelled ones; empty: all.")
    above: Above | None = Field(
        default=None,
        description="Of scored corpora only rows with a label above this, or above a number of "
        "each by its name; 3 in the paper.",
    )
    max_rows: int = Field(default=500, ge=2, description="Most pairs, drawn by seed.")
    per_source: int = Field(default=4, ge=1, le=64, description="Generations of each source.")


class ParaphraseConfig(PairsToMeasure):
    """One generator, and how it is decoded."""

    name: str
    decoding: Decoding
    precision: Precision = "fp32"


def run(work: Work) -> None:
    """Emits `generator_texts`. Slots: labelled; the model generator."""
    pairs = _pairs(work)
    answers = _answers(work, pairs["row_id"].to_numpy(), pairs["source"].to_pylist())
    rows = [
        {**pair, "generator": work.config.name, "number": number, "text": text}
        for pair, several in zip(pairs.to_pylist(), answers, strict=True)
        for number, text in enumerate(several)
    ]
    work.emit("generator_texts", pa.Table.from_pylist(rows, schema=GENERATOR_TEXTS))


def _pairs(work: Work) -> pa.Table:
    """row_id, source, target: distinct pairs, at most `max_rows` by seed."""
    config: ParaphraseConfig = work.config
    columns = ["row_id", "corpus", "kind", "anchor", "positive", "label"]
    table = work.inputs["labelled"].table("labelled", columns)
    table = paraphrases(table, config.corpora, config.above, f"paraphrase: {config.name}")
    table = sample(table, "row_id", config.max_rows, work.seed, "measured pairs").combine_chunks()
    if table.num_rows < 2:
        raise BadInput(
            "no_rows",
            f"paraphrase: {config.name}: {table.num_rows} of the labelled rows can be "
            "measured on, and two are the least: look at measure_generators.above and corpora.",
        )
    columns = ["row_id", "anchor", "positive"]
    return table.select(columns).rename_columns(["row_id", "source", "target"])


def _answers(work: Work, ids: seeding.Ids, sources: Sequence[str]) -> list[list[str]]:
    """Generations of each source, each drawn by its own seed.

    They are saved in the scratch directory, so that a killed stage draws none of them twice.
    """
    from tercet.models.errors import Unusable
    from tercet.models.generators import generator
    from tercet.models.llm.messages import Request

    config: ParaphraseConfig = work.config
    copies = config.per_source
    seeds = [
        seeding.draws(work.seed, "measured generation", ids, copy) >> np.uint64(1)
        for copy in range(copies)
    ]
    try:
        opened = generator.load(work.models["generator"], config.precision, work.resources.device)
        requests = [
            Request(place, source, config.decoding, 0, source=source)
            for place, source in enumerate(sources)
        ]
        prompts = generator.prompts(opened, requests)
        every = [(row, copy) for row in range(len(sources)) for copy in range(copies)]
        file = work.scratch / "answers.jsonl"
        written = _read_answers(file)
        missing = [one for one in every if one not in written]
        missing.sort(key=lambda one: len(prompts[one[0]]))
        size = work.resources.batch_size
        for start in range(0, len(missing), size):
            chosen = missing[start : start + size]
            generated = generator.texts(
                opened,
                [prompts[row] for row, _ in chosen],
                [int(seeds[copy][row]) for row, copy in chosen],
                config.decoding,
                lambda: None,
            )
            new = {one: text.raw.strip() for one, text in zip(chosen, generated, strict=True)}
            with file.open("a", encoding="utf-8") as stream:
                stream.writelines(json.dumps([*one, text]) + "\n" for one, text in new.items())
            written |= new
            work.resources.progress(len(written), len(every), "texts")
    except Unusable as error:
        raise BadInput("unfit_model", f"paraphrase: {config.name}: {error}") from error
    return [[written[row, copy] for copy in range(copies)] for row in range(len(sources))]


def _read_answers(file: Path) -> dict[tuple[int, int], str]:
    """The texts that a killed stage saved, by row and copy; an incomplete last line is removed."""
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    file.write_bytes(b"".join(whole))
    return {(row, copy): text for row, copy, text in map(json.loads, whole)}


STAGE = Stage(
    name="paraphrase",
    config=ParaphraseConfig,
    tables={"generator_texts": GENERATOR_TEXTS},
    run=run,
    libraries=("torch", "transformers"),
)
