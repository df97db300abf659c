"""Steps from files to sentences, and to labelled rows."""

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.resolved import Resolved
from tercet.tasks.corpus import ingest, labelled, passages, sample
from tercet.tasks.corpus.sources.corpora import IngestConfig, PretrainIngestConfig

# Held out of the corpora of role pretrain, to measure the loss on; the recipe's own shares may
# follow another corpus's size.
PRETRAIN_DEV = 0.02


def corpus_steps(resolved: Resolved) -> list[Step]:
    """The steps behind all sentences, anchors and passages, pretraining texts and labelled rows."""
    recipe = resolved.recipe
    steps, settings = [], recipe.ingest.model_dump(exclude={"passages", "keep"})
    if corpora := list(recipe.unlabelled):
        shares = [
            sample.CorpusShare(
                **corpus.model_dump(include={"name", "role", "share", "min_context_sentences"})
            )
            for corpus in corpora
        ]
        texts = IngestConfig(corpora=corpora, **settings)
        anchors = sample.SampleConfig(
            corpora=shares, **recipe.sample.model_dump(exclude={"passages", "keep"})
        )
        steps.append(Step("ingest", ingest.STAGE, texts, keep=recipe.ingest.keep))
        sentences, keep = {"sentences": ("ingest",)}, recipe.sample.keep
        steps.append(Step("sample", sample.STAGE, anchors, sentences, keep=keep))
        if (wanted := recipe.ingest.passages) is not None:
            cut = passages.PassagesConfig(
                **wanted.model_dump(),
                corpora=corpora,
                max_line_bytes=recipe.ingest.max_line_bytes,
            )
            backbone = resolved.models.get(("backbone",))
            models = {} if backbone is None else {"tokenizer": backbone.model}
            documents = {"documents": ("ingest",)}
            steps.append(Step("passages", passages.STAGE, cut, documents, models))
    # Nothing of theirs reaches the others.
    if corpora := [corpus for corpus in recipe.corpora if corpus.role == "pretrain"]:
        own = PretrainIngestConfig(corpora=corpora, **settings | {"dev": PRETRAIN_DEV, "test": 0.0})
        steps.append(Step("ingest.pretrain", ingest.PRETRAIN, own))
    # None of their rows is in dev or test.
    if corpora := list(recipe.labelled):
        rows = labelled.LabelledConfig(corpora=corpora, max_line_bytes=recipe.ingest.max_line_bytes)
        held_out = dict.fromkeys(("sentences", "document_pairs"), ("ingest",))
        steps.append(Step("labelled", labelled.STAGE, rows, held_out))
    return steps
