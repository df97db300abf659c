"""What each stage's version depends on: the modules that it imports, listed in `closures.txt`.

A new line there means that an edit of one more module makes the stage anew. After a change that is
meant, write the list again and look at its diff:

    .venv/bin/python tests/tasks/test_closures.py
"""

from pathlib import Path

import pytest

from tercet.flows.pipeline.fingerprints import closure
from tercet.tasks.scoring.score import STAGE_NAME
from tercet.tasks.stage import Stage
from tercet.tasks.stages import stages

LIST = Path(__file__).with_name("closures.txt")
COMMAND = ".venv/bin/python tests/tasks/test_closures.py"

# Stages to what must never be part of them: none of their results depends on it.
BANNED = {
    ("sample", "extract", "graph", "synthesise", "parse", "embed", "score", "select"): (
        "tasks.corpus.sources",
        "tasks.corpus.ingest",
        "tasks.training",
        "tasks.evaluation",
        "tasks.guarding",
        "models.training",
        "models.losses",
        "models.measures",
    ),
    ("train", "fit_evaluator"): (
        "tasks.corpus.sources",
        "tasks.corpus.ingest",
        "tasks.knowledge",
        "tasks.synthesis",
        "tasks.scoring",
        "models.knowledge",
        "models.prompted",
        "models.rules",
        "models.llm.client",
        "models.llm.vllm",
    ),
    # Else an edit of a measure, or of how a run asks, would make all that is trained anew.
    ("guard",): ("models.measures",),
    ("extract_generate", "synthesise"): ("models.llm.run_settings", "models.llm.vllm"),
    ("evaluate", "awareness", "guard"): (
        "tasks.corpus.sources.corpora",
        "tasks.corpus.sources.files",
        "tasks.corpus.sources.hub",
        "tasks.corpus.sources.pydocs",
        "tasks.corpus.ingest",
        "tasks.synthesis",
        "tasks.training",
        "models.losses",
        "models.prompted",
        "models.llm.client",
        "models.llm.vllm",
        "models.training",
    ),
}

# What a module loaded by name may read nevertheless.
ALLOWED = {
    "tercet.tasks.training.choose_order": (
        "tasks.corpus.sources.separated",
        "tasks.corpus.sources.streams",
        "tasks.corpus.sources.tables",
    ),
    "tercet.tasks.evaluation.suites.sts_sets": (
        "tasks.corpus.sources.cells",
        "tasks.corpus.sources.separated",
        "tasks.corpus.sources.streams",
        "tasks.corpus.sources.tables",
    ),
}


def label(stage: Stage) -> str:
    """The stage's name, with what it loads by name where there is such."""
    loaded = ", ".join(name.removeprefix("tercet.") for name in stage.modules)
    if stage.name == STAGE_NAME:
        # Each scorer has a stage of this name.
        return f"{stage.name} by {stage.run.__module__.removeprefix('tercet.')}"
    return f"{stage.name} with {loaded}" if loaded else stage.name


def modules(stage: Stage) -> list[str]:
    """Its modules without packages' empty `__init__`."""
    names = [name.removeprefix("tercet.") for name in closure(stage)]
    return [n for n in names if n != "tercet" and not any(m.startswith(f"{n}.") for m in names)]


def listed() -> str:
    """A block a stage, a line a module."""
    blocks = {label(stage): "\n".join(["", *modules(stage)]) for stage in stages()}
    text = "\n\n".join(name + found.replace("\n", "\n    ") for name, found in blocks.items())
    return f"# The modules in each stage's version. Written by {COMMAND}\n\n{text}\n"


def test_a_stage_depends_on_the_modules_in_the_list_and_no_others() -> None:
    assert listed() == LIST.read_text(encoding="utf-8"), f"see the diff after: {COMMAND}"


def test_stages_of_one_label_have_one_closure() -> None:
    found: dict[str, list[str]] = {}
    for stage in stages():
        assert found.setdefault(label(stage), modules(stage)) == modules(stage)


@pytest.mark.parametrize(("names", "banned"), BANNED.items(), ids=lambda value: value[0])
def test_what_must_not_be_part_of_a_stage(names: tuple[str, ...], banned: tuple[str, ...]) -> None:
    wanted = [stage for stage in stages() if stage.name in names]
    assert {stage.name for stage in wanted} == set(names)
    for stage in wanted:
        allowed = [module for name in stage.modules for module in ALLOWED.get(name, ())]
        reached = [
            module
            for module in modules(stage)
            if module not in allowed and any(f"{module}.".startswith(f"{b}.") for b in banned)
        ]
        assert reached == [], label(stage)


if __name__ == "__main__":
    LIST.write_text(listed(), encoding="utf-8")
