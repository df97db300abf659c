"""Stage `extract_generate`: a language model names entities and quantities of the anchors (GCSE
§3.1, eq. 1).

Its answers stay word for word; `extract_parse` turns them into mentions.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

import pyarrow as pa
from pydantic import AfterValidator, Field, StringConstraints

from tercet.models.generation import ASKED, DETAIL, GENERATIONS
from tercet.models.knowledge.answer_schema import CATEGORIES, TYPES, schema
from tercet.models.llm.messages import Request
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.models.prompted import templates
from tercet.tasks.config import Wired
from tercet.tasks.corpus.anchors import ANCHOR_COLUMNS, anchor_mask
from tercet.tasks.stage import Config, EachPart, Stage, Work
from tercet.tasks.synthesis import asking

METHOD, PURPOSE = "extract", "extraction"
VARIABLES = ("sentence", "categories", "types")


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"{name!r} is listed twice")
        seen.add(name.casefold())
    return names


_Name: TypeAlias = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)
]
Names: TypeAlias = Annotated[tuple[_Name, ...], AfterValidator(_distinct)]


class ExtractGenerateConfig(Config):
    """The kinds of things that the language model is asked to name."""

    categories: Names = Field(
        CATEGORIES, min_length=1, description="what a sentence may be about: exactly one of these"
    )
    types: Names = Field(TYPES, min_length=1, description="what an entity may be: one of these")
    prompt: str | None = Field(None, description="a prompt file (Jinja2) instead of ours")
    max_tokens: int = Field(512, ge=1, le=32768, description="Most tokens in an answer")
    llm: Wired[LlmSettings | None] = None


def prompt_path(config: ExtractGenerateConfig) -> Path:
    """The user's prompt file, or the built-in one."""
    return templates.prompt_path(METHOD) if config.prompt is None else Path(config.prompt)


def externals(config: ExtractGenerateConfig) -> dict[str, Path]:
    """The files outside the store whose content decides the answers.

    Raises Unusable for a prompt file that cannot be used, before anything runs.
    """
    assert config.llm is not None
    path = prompt_path(config)
    templates.load(path, VARIABLES)
    return {"prompt": path, **asking.llm_externals(config.llm)}


def sampling(config: ExtractGenerateConfig) -> Sampling:
    """The likeliest tokens, whatever the recipe's settings for texts."""
    return Sampling(temperature=0, top_p=1, max_tokens=config.max_tokens)


def asked(work: Work) -> pa.Table:
    """The anchors of one part as rows of `ASKED`. Slots: sentences (the part), anchors."""
    config: ExtractGenerateConfig = work.config
    sentences = work.inputs["sentences"].table("sentences", [*ANCHOR_COLUMNS, "text"])
    anchors = anchor_mask(sentences, work.inputs["anchors"].table("anchors"), work.seed)
    chosen = sentences.filter(pa.array(anchors))
    lists = {"categories": config.categories, "types": config.types}
    values = [
        json.dumps({"sentence": text, **lists}, ensure_ascii=False)
        for text in chosen["text"].to_pylist()
    ]
    columns = [chosen["sentence_id"], pa.array(values, pa.string()), pa.nulls(len(values), DETAIL)]
    return pa.Table.from_arrays(columns, schema=ASKED)


def requests(work: Work) -> Iterator[Request]:
    """The requests of one part, without asking them."""
    config: ExtractGenerateConfig = work.config
    template = templates.load(prompt_path(config), VARIABLES)
    shape = schema(config.categories, config.types)
    return asking.requests(asked(work), METHOD, work.seed, template, sampling(config), shape)


def run(work: Work) -> None:
    """Emits the model's answers about the anchors of one part, in their order, and failed rows."""
    config: ExtractGenerateConfig = work.config
    asking.ask(
        work,
        method=METHOD,
        purpose=PURPOSE,
        relation=None,
        questions=asked(work),
        template=templates.load(prompt_path(config), VARIABLES),
        sampling=sampling(config),
        schema=schema(config.categories, config.types),
    )


def uses(config: ExtractGenerateConfig) -> tuple[str]:
    """The module that puts prompts on the wire, which affects answers."""
    return (asking.WIRE,)


STAGE = Stage(
    name="extract_generate",
    config=ExtractGenerateConfig,
    tables={"generations": GENERATIONS},
    run=run,
    cut=EachPart("sentences"),
    uses=uses,
    externals=externals,
    locations=("prompt", *asking.LLM_LOCATIONS),
    asks=requests,
    method=METHOD,
)
