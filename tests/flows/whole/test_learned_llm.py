"""A model that has learnt to swap entities, served by vLLM: from the prompt to triplets."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny_run import ROOT, ended_well, query, start

sys.path.insert(0, str(ROOT / "benchmarks"))

import learned_llm
import swapping_model
from swapping_model import Shape, Swap

SHAPE = Shape(hidden=128, layers=2)
STEPS = 350

# What the model was asked, what it said, and what became of that, by its own row of each table.
CHAIN = r"""
SELECT s.text, g.detail.old, g.detail.new, g.prompt, r.raw, c.text, t.negative
FROM triplets t
JOIN candidates c ON c.candidate_id = t.negative_id
JOIN generations g USING (generation_id)
JOIN responses r USING (request_digest)
JOIN sentences s ON s.sentence_id = t.sentence_id
WHERE t.negative_method = 'entity_revision'"""


@pytest.fixture(scope="module")
def vocabulary() -> swapping_model.Words:
    """Sixty-four nouns and four shapes: what can be learnt in seconds."""
    return swapping_model.words(each=8, shapes=4)


@pytest.fixture(scope="module")
def runs(
    vocabulary: swapping_model.Words,
    vllm_python: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Stores of two runs to triplets, of the model that has learnt and of one that has not."""
    folder = tmp_path_factory.mktemp("learned")
    corpus = folder / "prose.jsonl"
    texts = swapping_model.write_corpus(corpus, vocabulary, documents=30)
    tokenizer = swapping_model.tokenizer_of(vocabulary)
    learned, untaught = (swapping_model.model_of(tokenizer, SHAPE) for _ in range(2))
    swapping_model.train(learned, tokenizer, vocabulary, STEPS, texts)
    children, stores = [], {}
    for name, model in (("learned", learned), ("random", untaught)):
        path = swapping_model.save(model, tokenizer, folder / f"{name}-model")
        recipe = learned_llm.write_recipe(folder / f"{name}.yaml", corpus, path, vllm_python)
        stores[name] = folder / name
        children.append(start(*learned_llm.command(recipe, stores[name])))
    for child in children:
        stdout, stderr = child.communicate(timeout=3600)
        ended_well(subprocess.CompletedProcess(child.args, child.returncode, stdout, stderr))
    return stores


def figures(store: Path) -> dict[str, Any]:
    found = learned_llm.figures(store)
    assert found["generations"] > 100
    return found


@pytest.mark.slow
def test_what_was_learnt_is_accepted_and_what_was_not_is_refused(runs: dict[str, Path]) -> None:
    learned, random_ = figures(runs["learned"]), figures(runs["random"])
    assert learned["exact_swaps"] > 0.5 * learned["generations"]
    assert learned["triplets_with_its_negative"] > 0.5 * learned["generations"]
    assert random_["exact_swaps"] == 0
    assert random_["triplets_with_its_negative"] < 0.1 * random_["generations"]


@pytest.mark.slow
def test_each_negative_leads_back_to_the_prompt_and_the_answer(runs: dict[str, Path]) -> None:
    rows = query(runs["learned"], CHAIN)
    assert len(rows) > 50
    for sentence, old, new, prompt, raw, candidate, negative in rows:
        assert Swap(sentence, old, new, "").asked().removesuffix(swapping_model.ANSWER) == prompt
        assert old in sentence.rstrip(".").split()
        assert new in negative.rstrip(".").split()
        assert raw.strip() == candidate == negative


def test_a_loaded_tokenizer_cuts_as_the_one_that_was_trained_with(
    vocabulary: swapping_model.Words, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = swapping_model.tokenizer_of(vocabulary)
    model = swapping_model.model_of(tokenizer, Shape(hidden=32, layers=1))
    loaded = AutoTokenizer.from_pretrained(
        swapping_model.save(model, tokenizer, tmp_path / "model")
    )
    draw = random.Random(4)
    swaps = [swapping_model.swap(draw, vocabulary) for _ in range(50)]
    texts = [f"{one.asked()} {one.wanted}{swapping_model.END}" for one in swaps]
    assert loaded(texts)["input_ids"] == tokenizer(texts)["input_ids"]
    # A word is a token: what is copied has no pieces.
    assert len(tokenizer.tokenize(f" {swaps[0].new}")) == 1
