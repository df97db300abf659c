"""Stage `measure_generators`: generators' paraphrases of labelled pairs, beside simple controls."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from tercet.errors import kind_of
from tercet.models import seeding
from tercet.models.measures import generated, resampling
from tercet.models.measures.generated import DELETED, REPLACED, SYNONYMS, controls, synonyms
from tercet.models.pretraining.forms import form_fault
from tercet.tasks.evaluation.paraphrase import PairsToMeasure
from tercet.tasks.stage import BadInput, Stage, Work

if TYPE_CHECKING:
    from tercet.models.measures.generated import Cosines, Values

# The texts of each row, (rows, generations).
Texts: TypeAlias = Sequence[Sequence[str]]
# A generator's name (None for a control), and the arm.
_Arm: TypeAlias = tuple[str | None, str]

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
"""Table `generator_metrics`. How good each generator's paraphrases of labelled pairs are
(`measure_generators`), beside controls on the same pairs. Similarity alone or diversity alone
easily comes close to 100: a copy is similar, random words are diverse.

The metrics:

- `rouge1`, `rouge2`, `rouge_l`, `average_rouge`: F1 with the target, and the mean of the three,
  of words in lower case
- `character_rouge`: their mean with characters for words, counted as the Python package `rouge`
  1.0.1 does
- `word_cosine`, `sentence_cosine`: with the target: of the mean of the encoder's word vectors,
  and of its sentence vectors
- `source_cosine`: of the sentence vectors with the source
- `source_diversity`: distinct words that only one of source and text has, among those of both
- `generation_diversity`: the same between each two texts of a source; 0 where there is one
- `type_token_ratio`: distinct words among all of a text, in lower case; `cased_type_token_ratio`:
  not in lower case
- `average`: of `average_rouge`, `word_cosine`, `sentence_cosine` and the three before this
- `deficiency`: the lower of the mean of these three similarities and the mean of the three
  diversities
- `length`: words, in percent of the source's; `empty`: share of texts without a word
- `perplexity`: under `measure_generators.judge`, by token, not in percent
- `gain_over_replaced`, `gain_over_deleted`, `gain_over_synonym`: `sentence_cosine` minus that of
  the control at the same `source_diversity`, interpolated between its strengths and the copy, on
  the same resamples; NULL where the generator changes more words than the strongest
- `gain_over_shuffle`: `sentence_cosine` minus that of `shuffle`, which changes no word and so has
  no strength to compare at

Comparable with table 2 of the paper of VAEGPT-Sim, on SICK's trial pairs above 3:
`character_rouge` (a copy has 79.7, there 79.3), `sentence_cosine` with all-MiniLM-L6-v2 as the
encoder (76.9, there 75.9), `cased_type_token_ratio` (96.3, there 96.9), and the two diversities,
which are 0 of a copy in both. Not comparable: `average_rouge` and `type_token_ratio`, which are
stricter; `word_cosine`, whose word vectors are the encoder's and not GloVe's; and so `average`
and `deficiency`.

Key: `generator`, `arm`, `metric`, `seed`.

Columns:
    generator: its name under `generators`; NULL of a control
    arm: `generator`; or a control: `human` (the target itself), `copy` (the source),
        `replaced_10`, `replaced_20`, `replaced_33`, `replaced_50` (so many in a hundred of the
        source's words replaced by words of all sources), `deleted_10`, `deleted_20`,
        `deleted_33`, `deleted_50`, `shuffle`, `random_sentence` (another source), `synonym_1`,
        `synonym_2`, `synonym_4` (so many words, at most, exchanged by the rule `synonym`)
    metric: as above
    value: in percent, gains in points; NULL for a gain that is not defined
    ci_low: lower end of the 95 % bootstrap interval over pairs; NULL if too many resamples leave
        the figure undefined
    ci_high: its upper end
    n: pairs
    per_source: texts of each source; 1 of `human` and `copy`
    seed: the recipe's, by which pairs, texts and resamples are drawn
"""
# The arm of every generator; each control has its own arm.
GENERATOR = "generator"
# Controls of several strengths, for comparing similarity at equal diversity.
_STRENGTHS = {"replaced": REPLACED, "deleted": DELETED, "synonym": SYNONYMS}


class MeasureGeneratorsConfig(PairsToMeasure):
    """Which pairs are measured, and by which models."""

    bootstrap: int = Field(
        default=2_000, ge=100, le=100_000, description="Resamples behind an interval."
    )
    encoder: str = Field(min_length=1, description="Compares texts, and lends its word vectors.")
    judge: str | None = Field(
        default=None, description="A causal language model for the perplexity; null: none."
    )


def run(work: Work) -> None:
    """Emits `generator_metrics`; every distinct text, of whatever generator, is encoded once.

    Slots: texts, of one or more generators about the same pairs; the models encoder and, for a
    perplexity, judge.
    """
    ids, sources, targets, written = _read_texts(work)
    copies = len(next(iter(written.values()))[0])
    beside: dict[str, Texts] = {
        **controls(ids, sources, targets, copies, work.seed),
        **synonyms(ids, sources, copies, work.seed),
    }
    # A generator may have the name of a control, so both are part of the key.
    arms: dict[_Arm, Texts] = {(None, name): texts for name, texts in beside.items()}
    arms |= {(name, GENERATOR): texts for name, texts in written.items()}
    cosines = _cosines(work, sources, targets, arms)
    judged = _judge(work, arms)
    values = {
        arm: generated.row_values(sources, targets, texts, cosines[arm])
        for arm, texts in arms.items()
    }
    rows = []
    for arm, texts in arms.items():
        measures = {name: resampling.mean_of(column) for name, column in values[arm].items()}
        measures["average"] = generated.average_of(values[arm])
        measures["deficiency"] = generated.deficiency_of(values[arm])
        if arm in judged:
            measures["perplexity"] = generated.perplexity_of(*judged[arm])
        if arm[0] is not None:
            measures |= _gains(values[arm], values)
        shared = {"generator": arm[0], "arm": arm[1], "n": len(sources), "seed": work.seed}
        shared["per_source"] = len(texts[0])
        for metric, measure in measures.items():
            try:
                sampled = resampling.sampled(
                    measure, len(sources), work.config.bootstrap, work.seed
                )
                interval = resampling.interval(sampled)
                figure = {"value": interval.value, "ci_low": interval.low, "ci_high": interval.high}
            except ValueError:
                figure = {}  # undefined: no control changes as many words
            rows.append({**shared, "metric": metric, **figure})
    work.emit("generator_metrics", pa.Table.from_pylist(rows, schema=GENERATOR_METRICS))


def _read_texts(work: Work) -> tuple[seeding.Ids, list[str], list[str], dict[str, list[list[str]]]]:
    """Row ids, sources and targets of the pairs, and each generator's texts of them."""
    table = work.inputs["texts"].table("generator_texts")
    keys = [(name, "ascending") for name in ("generator", "row_id", "number")]
    table = table.sort_by(keys)
    first = table.filter(pc.equal(table["generator"], table["generator"][0]))
    copies = pc.max(first["number"]).as_py() + 1
    pairs = first.filter(pc.equal(first["number"], 0))
    texts = np.array(table["text"].to_pylist(), dtype=object).reshape(-1, len(pairs), copies)
    names = table["generator"].unique().to_pylist()
    return (
        pairs["row_id"].to_numpy(),
        pairs["source"].to_pylist(),
        pairs["target"].to_pylist(),
        {name: of_one.tolist() for name, of_one in zip(names, texts, strict=True)},
    )


def _gains(
    generator_values: Mapping[str, "Values"], values: Mapping[_Arm, Mapping[str, "Values"]]
) -> dict[str, resampling.Measure]:
    """By how much a generator's similarity to the target exceeds that of controls."""
    gains = {}
    for name, strengths in _STRENGTHS.items():
        strength_values = [values[None, arm] for arm in ("copy", *strengths)]
        gains[f"gain_over_{name}"] = generated.gain_at_equal_diversity(
            generator_values, strength_values
        )
    # A shuffle changes no words, so there is no diversity to compare at.
    shuffled = values[None, "shuffle"]["sentence_cosine"]
    gains["gain_over_shuffle"] = resampling.mean_of(generator_values["sentence_cosine"] - shuffled)
    return gains


def _cosines(
    work: Work,
    sources: Sequence[str],
    targets: Sequence[str],
    arms: Mapping[_Arm, Texts],
) -> dict[_Arm, "Cosines"]:
    """The cosines of each arm's texts; every distinct text is encoded once."""
    from tercet.models.encoders import encoder
    from tercet.models.measures.generated import Cosines

    texts = [*sources, *targets]
    texts += [text for arm_texts in arms.values() for several in arm_texts for text in several]
    place = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    try:
        model = encoder.load_encoder(work.models["encoder"], device=work.resources.device)
        of_words = generated.mean_word_vectors(model, list(place))
        of_texts = encoder.encode(model, list(place), work.resources.batch_size)
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"measure_generators.encoder: {error}"
        ) from error
    source, target = (np.array([place[text] for text in side]) for side in (sources, targets))
    by_arm = {}
    for arm, arm_places in _places(place, arms).items():
        by_arm[arm] = Cosines(
            np.einsum("nkd,nd->nk", of_words[arm_places], of_words[target]).astype(np.float64),
            np.einsum("nkd,nd->nk", of_texts[arm_places], of_texts[target]).astype(np.float64),
            np.einsum("nkd,nd->nk", of_texts[arm_places], of_texts[source]).astype(np.float64),
        )
    return by_arm


def _judge(work: Work, arms: Mapping[_Arm, Texts]) -> dict[_Arm, tuple["Values", "Values"]]:
    """Losses and tokens of each row of each arm under the judge; empty without one."""
    if "judge" not in work.models:
        return {}
    from tercet.models import pretrained

    try:
        tokenizer = pretrained.load_tokenizer(work.models["judge"])
        model = pretrained.causal_model(work.models["judge"])
        model.to(work.resources.device)
        flat = [text for arm_texts in arms.values() for several in arm_texts for text in several]
        place = {text: number for number, text in enumerate(dict.fromkeys(flat))}
        losses, counts = generated.text_losses(
            model, tokenizer, list(place), work.resources.batch_size
        )
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"measure_generators.judge: {error}"
        ) from error
    of = _places(place, arms)
    return {
        arm: (losses[arm_places].sum(1), counts[arm_places].sum(1))
        for arm, arm_places in of.items()
    }


def _places(place: Mapping[str, int], arms: Mapping[_Arm, Texts]) -> dict[_Arm, Any]:
    """The places of each arm's texts, (rows, generations)."""
    return {
        arm: np.array([[place[text] for text in several] for several in arm_texts])
        for arm, arm_texts in arms.items()
    }


def check_model(config: MeasureGeneratorsConfig, slot: str, folder: Path) -> None:
    """Raises BadInput for a judge that is not a causal model."""
    if slot == "judge" and (fault := form_fault(folder, "causal")):
        raise BadInput(
            "unfit_model",
            f"measure_generators.{slot}: the model at {folder} cannot judge: {fault}.",
        )


STAGE = Stage(
    name="measure_generators",
    config=MeasureGeneratorsConfig,
    tables={"generator_metrics": GENERATOR_METRICS},
    run=run,
    libraries=("torch", "transformers", "sentence-transformers"),
    locations=("encoder", "judge"),
    check_model=check_model,
)
