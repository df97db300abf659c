"""A T5 from elsewhere, with nothing of ours beside it, writes and judges in a recipe's words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_run import Tiny, ended_well, query, states, tercet
from tiny_t5 import tiny_t5
from transformers import AutoTokenizer, T5ForConditionalGeneration

WORDS = ["Out", "of", "comes", "Against", "stands", "Given", "is", "it", "so", "that", "or"]
QUESTION = {"before": "Given ", "between": " is it so that ", "after": " ?"}
ANSWERS = {"if_true": "true", "if_false": "false"}
PROMPTS = {"entailment": "Out of {{ sentence }} comes", "contradiction": "Against {{ sentence }}"}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory, tiny: Tiny) -> Path:
    """A checkpoint in safetensors with its tokenizer, as it is published."""
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    words = {w for row in texts for text in row.values() for w in text[:-1].split()}
    known = [*sorted(word for word in words if word.isalnum()), *WORDS, "true", "false", ".", "?"]
    folder = tiny_t5(tmp_path_factory.mktemp("released") / "t5", list(dict.fromkeys(known)))
    _taught_to_end(folder, known)
    assert not [*folder.glob("generator.json"), *folder.glob("judge.json")]
    return folder


def _taught_to_end(folder: Path, words: list[str]) -> None:
    """A random T5 hardly ever ends a text: it learns to write three words."""
    model = T5ForConditionalGeneration.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(80):
        some = [words[(7 * step + 11 * number) % len(words)] for number in range(24)]
        texts = [" ".join(some[start : start + 3]) for start in range(0, 24, 3)]
        asked = tokenizer([f"Out of {text}" for text in texts], return_tensors="pt", padding=True)
        labels = tokenizer(texts, return_tensors="pt", padding=True)["input_ids"]
        loss = model(**asked, labels=labels.masked_fill(labels == 0, -100)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)


@pytest.fixture
def recipe(tiny: Tiny, released: Path, tmp_path: Path) -> Callable[..., Path]:
    """Writes a recipe in which it writes and judges, without an evaluator."""

    def write(**changes: Any) -> Path:
        content = yaml.safe_load(tiny.recipe.read_text())
        del content["evaluator"]
        asked = {}
        for method, text in PROMPTS.items():
            file = tmp_path / f"{method}.jinja"
            file.write_text(text)
            asked[method] = {"generator": "t5", "prompt": str(file)}
        content |= {
            "name": "elsewhere",
            "sample": {"rows": 30},
            "models": {"writer": str(released)},
            "generators": {"t5": {"model": "writer", "top_p": 0.9, "beams": 1, "max_tokens": 12}},
            "synthesise": asked,
            "score": {"gense": {"model": "writer", "question": {**QUESTION, **ANSWERS}}},
            "parse": {"min_words": 1},
            "select": {"p_min": 0.1, "fallback_positive": False},
            "train": {"phases": [{"name": "synthetic", "rows": "triplets", "loss": "info_nce"}]},
        }
        path = tmp_path / "elsewhere.yaml"
        path.write_text(yaml.safe_dump({**content, **changes}, sort_keys=False))
        return path

    return write


@pytest.mark.slow
def test_from_a_recipe_to_triplets(recipe: Callable[..., Path], tmp_path: Path) -> None:
    store = tmp_path / "store"
    run = ["run", "--no-server", "--store", str(store), "--until", "triplets"]
    ended_well(tercet(*run, str(recipe())))
    # Nothing is encoded where the judge decides.
    assert not {"embed", "score.evaluator"} & set(states(store))
    prompts = query(
        store,
        "SELECT g.method, bool_and(g.prompt = if(g.method = 'entailment', "
        "'Out of ' || s.text || ' comes', 'Against ' || s.text)), count(*) "
        "FROM generations g JOIN sentences s USING (sentence_id) GROUP BY 1 ORDER BY 1",
    )
    assert prompts == [("contradiction", True, 30), ("entailment", True, 30)]
    ((judged, candidates),) = query(
        store,
        "SELECT count(s.value), count(*) FROM candidates c LEFT JOIN scores s "
        "ON s.candidate_id = c.candidate_id AND s.scorer = 'gense'",
    )
    assert judged == candidates > 0
    rows = query(
        store,
        "SELECT count(*), count(positive_similarity), count(negative_similarity), "
        "bool_and(p.value >= 0.1 AND 1 - n.value >= 0.1) FROM triplets t "
        "JOIN scores p ON p.candidate_id = t.positive_id "
        "JOIN scores n ON n.candidate_id = t.negative_id WHERE t.relation = 'alters'",
    )
    assert rows[0][0] > 0
    assert rows[0][1:] == (0, 0, True)
    ended_well(tercet("report", "--store", str(store), "--output", str(tmp_path / "r.html")))
    assert "probability decided alone" in (tmp_path / "r.html").read_text()
    # Other words judge anew, and write nothing again.
    other = {"gense": {"model": "writer", "question": {**QUESTION, "before": "Out "}}}
    ended_well(tercet(*run, str(recipe(score=other))))
    found = states(store)
    assert {step for step, state in found.items() if state != "reused"} >= {"score.gense"}
    assert found["synthesise.entailment"] == found["parse"] == "reused"


def test_words_that_nobody_gave_are_asked_for(recipe: Callable[..., Path]) -> None:
    def said(**changes: Any) -> str:
        done = tercet("plan", str(recipe(**changes)))
        assert done.returncode == 2, done.stderr
        return str(done.stderr.splitlines()[-1])

    told = said(score={"gense": {"model": "writer"}})
    assert "give the words in which this one judges as score.gense.question" in told
    asked = {method: {"generator": "t5"} for method in PROMPTS}
    told = said(synthesise=asked)
    assert "cannot be asked this: only you know in what words" in told
