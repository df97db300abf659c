"""Stage `measure_generator`: a generator's paraphrases of labelled pairs, beside simple controls.

Answers are drawn in this process by the generator's own settings; nothing is asked of a server, so
a generator that vLLM serves is measured as transformers draws it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.models import seeding
from tercet.models.generators.sampling import Decoding
from tercet.models.measures import generated, resampling
from tercet.models.measures.generator_controls import DELETED, REPLACED, controls
from tercet.models.measures.synonym_control import SYNONYMS, synonyms
from tercet.models.precision import Precision
from tercet.tasks.stage import BadInput, Config, Stage, Work

if TYPE_CHECKING:
    from tercet.models.measures.generated import Cosines, Values

GENERATOR_METRICS = pa.schema(
    [
        ("generator", pa.string()),
        ("arm", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("n", pa.int64()),
        ("per_source", pa.int32()),
        ("seed", pa.int64()),
    ]
)
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
# The arm of the generator itself, beside those of the controls.
OWN = "generator"
# Controls of several strengths, against which its similarity is compared at equal diversity.
_STRENGTHS = {"replaced": REPLACED, "deleted": DELETED, "synonym": SYNONYMS}


class PairsToMeasure(Config):
    """On which pairs generators are measured, and how often each source is rewritten."""

    corpora: tuple[str, ...] = Field(default=(), description="Labelled ones; empty: all.")
    above: float | None = Field(
        default=None, description="Only rows with a label above this; 3 in the paper."
    )
    max_rows: int = Field(default=500, ge=2, description="Most pairs, drawn by seed.")
    per_source: int = Field(default=4, ge=1, le=64, description="Generations of each source.")
    bootstrap: int = Field(
        default=2_000, ge=100, le=100_000, description="Resamples behind an interval."
    )


class MeasureGeneratorsSettings(PairsToMeasure):
    """And the models that compare texts."""

    encoder: str = Field(min_length=1, description="Compares texts, and lends its word vectors.")
    judge: str | None = Field(
        default=None, description="A causal language model for the perplexity; null: none."
    )

    def config(
        self, name: str, corpora: tuple[str, ...], decoding: Decoding, precision: Precision
    ) -> "MeasureGeneratorConfig":
        """The stage's config for the generator of this name."""
        own = self.model_dump(exclude={"encoder", "judge"}) | {"corpora": corpora}
        return MeasureGeneratorConfig(name=name, decoding=decoding, precision=precision, **own)


class MeasureGeneratorConfig(PairsToMeasure):
    """One generator, and how it is decoded."""

    name: str
    decoding: Decoding
    precision: Precision = "fp32"


def run(work: Work) -> None:
    """Emits `generator_metrics` and `generator_texts`.

    Slots: labelled; the models generator, encoder and, for a perplexity, judge.
    """
    config: MeasureGeneratorConfig = work.config
    pairs = _pairs(work)
    ids = pairs["row_id"].to_numpy()
    sources, targets = pairs["source"].to_pylist(), pairs["target"].to_pylist()
    own = _answers(work, ids, sources)
    _emit_texts(work, pairs, own)
    arms: dict[str, list[list[str]]] = {
        OWN: own,
        **controls(ids, sources, targets, config.per_source, work.seed),
        **synonyms(ids, sources, config.per_source, work.seed),
    }
    cosines = _cosines(work, sources, targets, arms)
    values = {
        arm: generated.row_values(sources, targets, texts, cosines[arm])
        for arm, texts in arms.items()
    }
    judged = _judged(work, arms)
    rows = []
    for arm in arms:
        measures = {name: resampling.mean_of(column) for name, column in values[arm].items()}
        measures["average"] = generated.average_of(values[arm])
        measures["deficiency"] = generated.deficiency_of(values[arm])
        if arm in judged:
            measures["perplexity"] = generated.perplexity_of(*judged[arm])
        if arm == OWN:
            for name, others in _STRENGTHS.items():
                known = [values["copy"], *(values[other] for other in others)]
                measures[f"gain_over_{name}"] = generated.gain_at_equal_diversity(
                    values[OWN], known
                )
            # A shuffle changes no word, whatever its strength: there is no equal diversity.
            measures["gain_over_shuffle"] = resampling.mean_of(
                values[OWN]["sentence_cosine"] - values["shuffle"]["sentence_cosine"]
            )
        for metric, measure in measures.items():
            rows.append(_row(work, arm, metric, measure, len(sources), len(arms[arm][0])))
    work.emit("generator_metrics", pa.Table.from_pylist(rows, schema=GENERATOR_METRICS))


def _row(
    work: Work, arm: str, metric: str, measure: resampling.Measure, n: int, per_source: int
) -> dict[str, Any]:
    try:
        found = resampling.interval(
            resampling.sampled(measure, n, work.config.bootstrap, work.seed)
        )
    except ValueError:
        # Undefined: no control changes as many words.
        found = resampling.Interval(float("nan"), None, None)
    return {
        "generator": work.config.name,
        "arm": arm,
        "metric": metric,
        "value": found.value if np.isfinite(found.value) else None,
        "ci_low": found.low,
        "ci_high": found.high,
        "n": n,
        "per_source": per_source,
        "seed": work.seed,
    }


def _pairs(work: Work) -> pa.Table:
    """row_id, source, target: distinct pairs, at most `max_rows` by seed."""
    config: MeasureGeneratorConfig = work.config
    columns = ["row_id", "corpus", "anchor", "positive", "label"]
    table = work.inputs["labelled"].table("labelled", columns)
    table = table.filter(pc.is_in(table["corpus"], pa.array(config.corpora)))
    table = table.filter(pc.is_valid(table["positive"]))
    if config.above is not None:
        table = table.filter(pc.fill_null(pc.greater(table["label"], config.above), False))
    ids = table["row_id"].to_numpy()
    drawn = np.argsort(seeding.draws(work.seed, "measured pairs", ids), kind="stable")
    table = table.take(pa.array(np.sort(drawn[: config.max_rows]))).combine_chunks()
    if table.num_rows < 2:
        raise BadInput(
            f"measure_generator: {config.name}: {table.num_rows} of the labelled rows can be "
            "measured on, and two are the least: look at measure_generators.above and corpora."
        )
    columns = ["row_id", "anchor", "positive"]
    return table.select(columns).rename_columns(["row_id", "source", "target"])


def _answers(work: Work, ids: seeding.Ids, sources: Sequence[str]) -> list[list[str]]:
    """Generations of each source, each by a seed of its own.

    They lie in the scratch directory, so that a killed stage asks for none of them twice.
    """
    from tercet.models.generators import generator
    from tercet.models.llm.errors import Unusable
    from tercet.models.llm.messages import Request

    config: MeasureGeneratorConfig = work.config
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
        said = _said(file)
        wanted = [one for one in every if one not in said]
        wanted.sort(key=lambda one: len(prompts[one[0]]))
        size = work.resources.batch_size
        for start in range(0, len(wanted), size):
            chosen = wanted[start : start + size]
            found = generator.texts(
                opened,
                [prompts[row] for row, _ in chosen],
                [int(seeds[copy][row]) for row, copy in chosen],
                config.decoding,
                lambda: None,
            )
            new = {one: text.raw.strip() for one, text in zip(chosen, found, strict=True)}
            with file.open("a", encoding="utf-8") as kept:
                kept.writelines(json.dumps([*one, text]) + "\n" for one, text in new.items())
            said |= new
            work.resources.progress(len(said), len(every), "texts")
    except Unusable as error:
        raise BadInput(f"measure_generator: {config.name}: {error}") from error
    return [[said[row, copy] for copy in range(copies)] for row in range(len(sources))]


def _said(file: Path) -> dict[tuple[int, int], str]:
    """The texts by row and copy that a killed stage has left; the file then ends with a line."""
    lines = file.read_bytes().splitlines(keepends=True) if file.is_file() else []
    whole = [line for line in lines if line.endswith(b"\n")]
    file.write_bytes(b"".join(whole))
    return {(row, copy): text for row, copy, text in map(json.loads, whole)}


def _emit_texts(work: Work, pairs: pa.Table, said: Sequence[Sequence[str]]) -> None:
    rows = [
        {**pair, "generator": work.config.name, "number": number, "text": text}
        for pair, several in zip(pairs.to_pylist(), said, strict=True)
        for number, text in enumerate(several)
    ]
    work.emit("generator_texts", pa.Table.from_pylist(rows, schema=GENERATOR_TEXTS))


def _cosines(
    work: Work,
    sources: Sequence[str],
    targets: Sequence[str],
    arms: Mapping[str, Sequence[Sequence[str]]],
) -> dict[str, "Cosines"]:
    """The cosines of each arm's texts; every distinct text is encoded once."""
    from tercet.models.encoders import encoder
    from tercet.models.encoders.word_vectors import mean_word_vectors
    from tercet.models.measures.generated import Cosines

    texts = [*sources, *targets]
    texts += [text for said in arms.values() for several in said for text in several]
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    try:
        model = encoder.load_encoder(work.models["encoder"], device=work.resources.device)
        of_words = mean_word_vectors(model, list(place))
        of_texts = encoder.encode(model, list(place), work.resources.batch_size)
    except ValueError as error:
        raise BadInput(f"measure_generators.encoder: {error}") from error
    source = np.array([place[text] for text in sources])
    target = np.array([place[text] for text in targets])
    found = {}
    for arm, said in arms.items():
        own = np.array([[place[text] for text in several] for several in said])
        found[arm] = Cosines(
            np.einsum("nkd,nd->nk", of_words[own], of_words[target]).astype(np.float64),
            np.einsum("nkd,nd->nk", of_texts[own], of_texts[target]).astype(np.float64),
            np.einsum("nkd,nd->nk", of_texts[own], of_texts[source]).astype(np.float64),
        )
    return found


def _judged(
    work: Work, arms: Mapping[str, Sequence[Sequence[str]]]
) -> dict[str, tuple["Values", "Values"]]:
    """Losses and tokens of each row of each arm under the judge; empty without one."""
    if "judge" not in work.models:
        return {}
    from tercet.models.generators import checkpoint
    from tercet.models.generators.judging import text_losses

    try:
        tokenizer = checkpoint.load_tokenizer(work.models["judge"])
        model = checkpoint.causal_model(work.models["judge"])
        model.to(work.resources.device)
        flat = [text for said in arms.values() for several in said for text in several]
        place = {text: number for number, text in enumerate(dict.fromkeys(flat))}
        losses, counts = text_losses(model, tokenizer, list(place), work.resources.batch_size)
    except ValueError as error:
        raise BadInput(f"measure_generators.judge: {error}") from error
    found = {}
    for arm, said in arms.items():
        own = np.array([[place[text] for text in several] for several in said])
        found[arm] = (losses[own].sum(1), counts[own].sum(1))
    return found


STAGE = Stage(
    name="measure_generator",
    config=MeasureGeneratorConfig,
    tables={"generator_metrics": GENERATOR_METRICS, "generator_texts": GENERATOR_TEXTS},
    run=run,
    libraries=("torch", "transformers", "sentence-transformers"),
)
