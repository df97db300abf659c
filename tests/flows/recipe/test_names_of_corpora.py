"""Generators without pairs are refused before anything runs, and those with pairs become steps."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.pipeline.step import Step
from tercet.flows.recipe import file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.model import Recipe
from tercet.flows.recipe.names import Made, Weights, count_apart, shipped_corpora
from tercet.tasks.corpus import labelled
from tercet.tasks.stage import Resources, Work
from tercet.tasks.training.generator_pairs import paraphrases

SICK = {"name": "sick", "source": "s.tsv", "role": "labelled", "kind": "scored"}
MRPC = {**SICK, "name": "mrpc", "source": "m.txt"}
TERMS = {"name": "terms", "source": "t.tsv", "role": "labelled", "kind": "definitions"}
FIELD = {"name": "field", "source": "f.txt"}


def checked(content: dict[str, Any]) -> Recipe:
    recipe = Recipe.model_validate(content)
    resolve(recipe)
    return recipe


def recipe(corpora: list[Any], pairs: dict[str, Any], **more: Any) -> Recipe:
    fit = {"form": "vaegpt", "init": "base_model", "pairs": pairs}
    models = {"base_model": {"pretrain": {"form": "causal"}}, "writer": {"fit_generator": fit}}
    wiki = {"name": "wiki", "source": "w.txt", "role": "pretrain"}
    content = {"name": "g", "corpora": [wiki, *corpora], "models": models, **more}
    return checked(content)


def steps(*args: Any, **more: Any) -> dict[str, Step]:
    return {step.name: step for step in compile_steps(resolve(recipe(*args, **more)))}


def test_pairs_of_labelled_corpora() -> None:
    step = steps([SICK], {"above": 3})["fit_generator.writer"]
    assert step.inputs == {"labelled": ("labelled",)}
    assert step.models == {"init": Made("pretrain.base_model")}
    assert (step.config.pairs.labelled, step.config.pairs.sentences) == (("sick",), ())
    above = {"sick": 3, "mrpc": 0}
    assert steps([SICK, MRPC], {"above": above})["fit_generator.writer"].config.pairs.above == above


def test_the_shipped_recipe_reads_sick_and_mrpc_as_senteval_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "SICK/SICK_train.txt": (
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
            "1\tA hen sleeps\tA hen is asleep\t4.8\tENTAILMENT\n"
            "2\tA hen sleeps\tA cart rolls\t3\tNEUTRAL\n"
        ),
        "MRPC/msr_paraphrase_train.txt": (
            "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
            '1\t7\t8\tShe said " yes " .\tShe agreed .\n'
            "0\t9\t10\tShares rose .\tShares fell .\n"
        ),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    found = {step.name: step for step in compile_steps(resolve(file.load("generate_cse")))}
    made: dict[str, pa.Table] = {}

    def emit(name: str, table: pa.Table) -> None:
        made[name] = pa.concat_tables([*([made[name]] if name in made else []), table])

    config = found["labelled"].config
    labelled.run(Work(config, 0, {}, {}, {}, Resources(), tmp_path / "scratch", emit))
    pairs = found["fit_generator.vaegpt"].config.pairs
    kept = paraphrases(made["labelled"], pairs.labelled, pairs.above, "here")
    assert list(zip(kept["anchor"].to_pylist(), kept["positive"].to_pylist(), strict=True)) == [
        ("A hen sleeps", "A hen is asleep"),
        ('She said " yes " .', "She agreed ."),
    ]


def test_sentences_that_are_their_own_targets() -> None:
    step = steps([SICK, FIELD], {"corpora": ["field"]})["fit_generator.writer"]
    assert step.inputs == {"sentences": ("ingest",)}
    assert step.config.pairs.sentences == ("field",)
    both = steps([SICK, FIELD], {"corpora": ["field", "sick"], "above": 3})["fit_generator.writer"]
    assert set(both.inputs) == {"labelled", "sentences"}


def test_what_is_measured_is_guarded_and_guards_come_first() -> None:
    found = steps(
        [SICK, FIELD], {"corpora": ["field", "sick"], "above": 3}, evaluate={"suite": "suite"}
    )
    assert found["fit_generator.writer"].inputs["guarded_labelled"] == ("guard.labelled",)
    assert found["fit_generator.writer"].inputs["guarded_sentences"] == ("guard.sentences",)
    order = list(found)
    assert all(
        order.index(need) < order.index(name) for name, step in found.items() for need in step.needs
    )


def repeating(form: str, count: int, model: str = "writer", **more: Any) -> Recipe:
    """A greedy generator that writes of each sentence so many times."""
    fit = {"form": form, "init": "c/d", "pairs": {"above": 3}, **more.pop("fit", {})}
    own = {"generator": "own", "per_unit": count, **more}
    return checked(
        {
            "name": "g",
            "backbone": "a/b",
            "corpora": [SICK, FIELD],
            "models": {"writer": {"fit_generator": fit}, "other_name": "writer"},
            "generators": {"own": {"model": model, "temperature": 0}},
            "synthesise": {"paraphrase": own},
            "evaluator": {"model": "a/b"},
            "train": {},
        }
    )


def test_the_same_text_several_times_is_refused() -> None:
    assert repeating("vaegpt", 3)
    assert repeating("causal", 1)
    # The method draws, whatever is the generator's own way.
    assert repeating("causal", 3, temperature=0.5)
    more: list[tuple[str, dict[str, Any]]] = [
        ("causal", {}),
        ("causal", {"model": "other_name"}),
        ("vaegpt", {"fit": {"vaegpt": {"noise_weight": 0}}}),
    ]
    for form, changes in more:
        with fails("conflict", "3"):
            repeating(form, 3, **changes)


def test_each_generator_is_measured() -> None:
    more = {
        "generators": {"vae": {"model": "writer", "beams": 1}, "other": {"model": "a/b"}},
        "measure_generators": {"encoder": "e/f", "judge": "base_model", "above": 3},
    }
    found = steps([SICK], {"above": 3}, **more)
    step = found["measure_generators"]
    assert step.inputs["texts"] == ("paraphrase.vae", "paraphrase.other")
    assert step.models["judge"] == Made("pretrain.base_model")
    assert step.models["encoder"] == Weights("e/f")
    step = found["paraphrase.vae"]
    assert step.models["generator"] == Made("fit_generator.writer")
    assert step.config.decoding.beams == 1
    assert step.config.corpora == ("sick",)
    assert step.config.above == 3


MEASURED = {"measure_generators": {"encoder": "e"}, "generators": {"g": {"model": "writer"}}}


@pytest.mark.parametrize(
    ("corpora", "pairs", "more", "kind", "name"),
    [
        ([FIELD], {}, {}, "missing_key", "pairs.corpora"),
        ([SICK], {"corpora": ["wiki"]}, {}, "unknown_name", "'wiki'"),
        ([TERMS], {}, {}, "unfit_model", "'terms'"),
        ([FIELD], {"corpora": ["field"], "above": 3}, {}, "no_effect", "scored"),
        ([SICK, MRPC], {"above": {"sick": 3}}, {}, "missing_key", "'mrpc'"),
        ([SICK, MRPC], {"above": {"sick": 3, "mprc": 0}}, {}, "unknown_name", "sick, mrpc"),
        ([SICK], {"unsupervised": True}, MEASURED, "missing_key", "'sick'"),
        ([FIELD], {"corpora": ["field"]}, MEASURED, "missing_key", "role labelled"),
    ],
)
def test_what_is_missing_is_said(
    corpora: list[Any], pairs: dict[str, Any], more: dict[str, Any], kind: ErrorKind, name: str
) -> None:
    with fails(kind, name):
        recipe(corpora, pairs, **more)


def test_a_shipped_corpus_is_known_by_its_source_whatever_its_name() -> None:
    quickstart = file.load("quickstart").model_dump(mode="json")
    assert shipped_corpora(quickstart) == ["plain"]
    corpora = [
        {"name": "plain", "source": "/home/ann/plain_english.txt"},
        {"name": "other", "source": "package:other.recipes/plain_english.txt"},
        {"name": "mine", "source": "package:tercet.recipes/plain_english.txt"},
    ]
    assert shipped_corpora({"corpora": corpora}) == ["mine"]
    assert shipped_corpora({"name": "of another version"}) == []


def test_documents_are_counted_apart_where_both_kinds_are_there() -> None:
    counted = count_apart({"docs": 500, "more": 84, "plain": 1496}, ["plain"])
    assert re.findall(r"\d[\d,]*\d", counted) == ["584", "1,496"]
    for counts in ({"docs": 584}, {"plain": 1496}, {}):
        assert count_apart(counts, ["plain"]) == ""
