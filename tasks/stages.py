"""All stages: the catalog finds every table here, and a newcomer sees the whole pipeline."""

import pyarrow as pa

from tercet.tasks.corpus import ingest, labelled, passages, sample
from tercet.tasks.evaluation import (
    awareness,
    define,
    evaluate,
    halves,
    judgements,
    labels,
    measure_generators,
    paraphrase,
)
from tercet.tasks.guarding import guard
from tercet.tasks.knowledge import extract, extract_generate, extract_parse, graph
from tercet.tasks.retrieval import negatives, passage_vectors
from tercet.tasks.scoring import embed, mine, select
from tercet.tasks.scoring.scorers import SCORERS
from tercet.tasks.stage import REJECTS, Stage
from tercet.tasks.synthesis import fitted, parse, prompted, synthesise
from tercet.tasks.training import (
    choose,
    count_tokens,
    entry_matrix,
    fit_evaluator,
    fit_generator,
    fit_gense,
    fit_pair,
    pretrain,
    train,
    whiten,
)


def stages() -> tuple[Stage, ...]:
    """All stages in the order of a pipeline."""
    return (
        ingest.STAGE,
        ingest.PRETRAIN,
        sample.STAGE,
        passages.STAGE,
        labelled.STAGE,
        extract.STAGE,
        extract_generate.STAGE,
        extract_parse.STAGE,
        graph.STAGE,
        synthesise.STAGE,
        prompted.STAGE,
        fitted.STAGE,
        parse.STAGE,
        embed.STAGE,
        passage_vectors.STAGE,
        *(scorer.stage for scorer in SCORERS.values()),
        mine.STAGE,
        select.STAGE,
        negatives.STAGE,
        guard.SENTENCES,
        guard.TRIPLETS,
        pretrain.STAGE,
        fit_generator.STAGE,
        fit_gense.STAGE,
        fit_pair.STAGE,
        count_tokens.STAGE,
        fit_evaluator.STAGE,
        entry_matrix.STAGE,
        train.STAGE,
        whiten.STAGE,
        choose.STAGE,
        awareness.STAGE,
        halves.STAGE,
        labels.STAGE,
        judgements.STAGE,
        paraphrase.STAGE,
        measure_generators.STAGE,
        define.STAGE,
        evaluate.STAGE,
    )


def known_schemas() -> dict[str, pa.Schema]:
    """Columns of every table that some stage makes."""
    made = {name: schema for stage in stages() for name, schema in stage.tables.items()}
    return {**made, "rejects": REJECTS}
