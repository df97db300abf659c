"""Two models that vLLM serves in one run: one after the other, and both gone before encoding."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_generators import tiny_causal
from tiny_run import Tiny, ended_well, query, tercet

from tercet.models.generators import layout

PLAIN = {"temperature": 0, "max_tokens": 24}


@pytest.fixture(scope="module")
def writer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It knows the corpus's words: no sentence is so long in tokens that it is cut.

    Its template's letters would be other tokens if they were joined to a sentence's.
    """
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    words = sorted({word for row in texts for word in " ".join(row.values()).split()})
    folder = tiny_causal(tmp_path_factory.mktemp("served") / "writer", words)
    around = {"before": words[0][:2], "after": words[1][-2:]}
    layout.write(folder, layout.read(folder).model_copy(update=around))
    return folder


@pytest.fixture(scope="module")
def recipe(
    tiny: Tiny,
    tiny_llm: Path,
    writer: Path,
    vllm_python: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The generator's method stands before the language model's two."""
    content = yaml.safe_load(tiny.recipe.read_text())
    content |= {
        "sample": {"rows": 40},
        "llm": {"model": str(tiny_llm), "max_tokens": 16, "temperature": 1.0},
        "generators": {"small": {"model": str(writer), "backend": "vllm", **PLAIN}},
        "synthesise": {
            "paraphrase": {"generator": "small"},
            "rewrite": None,
            "antisense": None,
        },
        "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0},
    }
    content["run"]["llm"] = {"engine": {"python": vllm_python, "max_num_seqs": 32}}
    path = tmp_path_factory.mktemp("turn") / "turn.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def done(recipe: Path) -> "subprocess.CompletedProcess[str]":
    """A run up to the vectors, into the folder `store` beside the recipe."""
    words = ["--no-server", "--store", str(recipe.parent / "store"), "--until", "embed"]
    return ended_well(tercet("run", str(recipe), *words))


def test_plan_shows_who_answers_first(recipe: Path, tmp_path: Path) -> None:
    said = ended_well(tercet("plan", str(recipe), "--store", str(tmp_path / "store"))).stdout
    line = said.strip().splitlines()[-1]
    assert line == (
        "Models answer one after another, each ended before the next starts: llm for "
        "synthesise.rewrite and synthesise.antisense; then small (vllm) for synthesise.paraphrase."
    )


def test_each_server_ends_before_the_next_starts(
    done: "subprocess.CompletedProcess[str]",
) -> None:
    marks = r"starts on port|vLLM ended in|^synthesise\.(?:rewrite|antisense|paraphrase)|^embed"
    found = re.findall(marks, done.stderr, re.MULTILINE)
    seen = list(dict.fromkeys(found[: found.index("vLLM ended in")]))
    assert found.count("starts on port") == found.count("vLLM ended in") == 2
    assert seen == ["starts on port", "synthesise.rewrite"]
    after = found[found.index("vLLM ended in") :]
    assert "synthesise.antisense" in after
    second = after.index("starts on port")
    assert after.index("vLLM ended in", second) < after.index("embed")


def test_a_served_generator_writes_what_it_writes_here(
    done: "subprocess.CompletedProcess[str]", recipe: Path
) -> None:
    store = recipe.parent / "store"
    rows: Any = query(
        store,
        "SELECT sentence_id, raw, finish_reason, sampling, prompt FROM generations "
        "WHERE method = 'paraphrase'",
    )
    assert len(rows) == 40
    sampling = json.loads(rows[0][3])
    assert (sampling["backend"], sampling["beams"], sampling["no_repeat"]) == ("vllm", 1, 0)
    content = yaml.safe_load(recipe.read_text())
    here = {**content["generators"]["small"], "backend": "transformers"}
    here |= {"beams": 1, "no_repeat": 0, "max_new": 20}
    content |= {"name": "here", "generators": {"small": here}, "llm": None}
    content["synthesise"] = {"paraphrase": {"generator": "small"}, "random": None}
    path = recipe.parent / "here.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    words = ["--no-server", "--store", str(recipe.parent / "here"), "--until", "parse"]
    ended_well(tercet("run", str(path), *words))
    local = dict(
        query(
            recipe.parent / "here",
            "SELECT sentence_id, raw FROM generations WHERE method = 'paraphrase'",
        )
    )
    # A random model writes halves of characters, which a server leaves out.
    pairs = [(local[sentence], raw) for sentence, raw, *_ in rows]
    different = [pair for pair in pairs if len({text.replace("\ufffd", "") for text in pair}) > 1]
    # Two programs round differently, and a random model is soon undecided.
    assert len(different) <= 2, different
