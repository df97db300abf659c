"""Whether generators find the pairs that they are fitted to and measured on."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tercet.flows.recipe.named_models import Fault, made_as
from tercet.tasks.corpus.sources.corpora import CorpusConfig
from tercet.tasks.training.fit_gense import FitGenseSettings
from tercet.tasks.training.generator_pairs import Above, least_of

if TYPE_CHECKING:
    from tercet.flows.recipe.model import Recipe

# The form that writes and judges, and paraphrases nothing.
GENSE = "gense"
_ABOVE = (
    "the corpus {!r} is scored, so that only pairs of a high label are paraphrases: give the least "
    "label, {}"
)


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
        scored = None if pairs.unsupervised else _scored(corpora, pairs.corpora, pairs.above)
        if scored is not None:
            remedy = "or set unsupervised: true, which takes each text for itself"
            yield _ABOVE.format(scored, remedy), (*place, "above")
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
    if scored := _scored(recipe.labelled, measured.corpora, measured.above):
        yield _ABOVE.format(scored, "or name other corpora"), ("measure_generators", "above")


def _of_names(
    corpora: Sequence[CorpusConfig], names: Sequence[str], above: Above | None
) -> Iterator[tuple[str, str]]:
    readable = [corpus.name for corpus in corpora]
    chosen = _chosen(corpora, names)
    for name in names:
        if name not in readable:
            known = ", ".join(readable) or "none"
            yield f"no corpus {name!r} has pairs to take, only: {known}", "corpora"
    for corpus in chosen:
        if corpus.kind == "definitions":
            message = f"the corpus {corpus.name!r} has definitions, which are no pairs"
            yield f"{message}: name other corpora", "corpora"
    scored = [corpus.name for corpus in chosen if corpus.kind == "scored"]
    if above is not None and not scored:
        yield "only corpora of kind scored have labels to be above: leave this out", "above"
    elif isinstance(above, dict) and (unknown := next((n for n in above if n not in scored), None)):
        yield (
            f"{unknown!r} is no corpus of kind scored whose pairs are taken, only: "
            f"{', '.join(scored)}",
            "above",
        )


def _chosen(corpora: Sequence[CorpusConfig], names: Sequence[str]) -> list[CorpusConfig]:
    """names: of corpora; none: all labelled ones."""
    if not names:
        return [corpus for corpus in corpora if corpus.role == "labelled"]
    return [corpus for corpus in corpora if corpus.name in names]


def _scored(
    corpora: Sequence[CorpusConfig], names: Sequence[str], above: Above | None
) -> str | None:
    """A chosen corpus whose pairs are paraphrases by their label alone, and which has no least."""
    scored = (c.name for c in _chosen(corpora, names) if c.kind == "scored")
    return next((name for name in scored if least_of(above, name) is None), None)
