"""Whether generators find the pairs that they are fitted to and measured on."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tercet.flows.recipe.named_models import Fault, made_as
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.training.fit_gense import FitGenseSettings

if TYPE_CHECKING:
    from tercet.flows.recipe.model import Recipe

# The form that writes and judges, and paraphrases nothing.
GENSE = "gense"


def faults(recipe: "Recipe") -> Iterator[Fault]:
    """What is wrong, each with its place in the recipe."""
    for name, settings in recipe.models.items():
        if settings.fit_generator is None:
            continue
        if isinstance(settings.fit_generator, FitGenseSettings):
            # Its pairs are checked with those of other discriminators.
            continue
        pairs, place = settings.fit_generator.pairs, ("models", name, "fit_generator", "pairs")
        if pairs.role is not None:
            if pairs.role not in [corpus.role for corpus in recipe.corpora]:
                yield f"no corpus has the role {pairs.role}: name another", (*place, "role")
            continue
        if not pairs.corpora and not recipe.labelled:
            yield (
                "there are no pairs to fit to: add a corpus of role labelled, or name sentences "
                "by pairs.role or pairs.corpora, each of which is then its own target",
                place,
            )
        corpora = [*recipe.labelled, *recipe.unlabelled]
        for message, key in _of_names(corpora, pairs.corpora, pairs.above):
            yield message, (*place, key)
    measured = recipe.measure_generators
    if measured is None:
        return
    if not recipe.generators:
        yield "there are no `generators` to measure: leave this out", ("measure_generators",)
    elif all(made_as(g.model, recipe.models) == GENSE for g in recipe.generators.values()):
        yield (
            f"the generators are of form {GENSE}, which writes no paraphrases to measure: leave "
            "this out",
            ("measure_generators",),
        )
    if not recipe.labelled:
        yield (
            "there are no pairs to measure on: add a corpus of role labelled",
            ("measure_generators",),
        )
    for message, key in _of_names(recipe.labelled, measured.corpora, measured.above):
        yield message, ("measure_generators", key)


def _of_names(
    corpora: Sequence[CorpusConfig], names: Sequence[str], above: float | None
) -> Iterator[tuple[str, str]]:
    """names: of corpora; none: all labelled ones."""
    readable = {corpus.name: corpus for corpus in corpora}
    labelled = [corpus.name for corpus in corpora if corpus.role == "labelled"]
    chosen = [readable[name] for name in names or labelled if name in readable]
    for name in names:
        if name not in readable:
            known = ", ".join(readable) or "none"
            yield f"no corpus {name!r} has pairs to take, only: {known}", "corpora"
    for corpus in chosen:
        if corpus.kind == "definitions":
            message = f"the corpus {corpus.name!r} has definitions, which are no pairs"
            yield f"{message}: name other corpora", "corpora"
    if above is not None and "scored" not in [corpus.kind for corpus in chosen]:
        yield "only corpora of kind scored have labels to be above: leave this out", "above"
