"""What a recipe's faults say of the value or the key that was meant."""

from collections.abc import Iterator
from typing import Any

import pytest

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.model import json_schema
from tercet.flows.recipe.wording import PATTERNS
from tercet.tasks.stage import BadInput

LOSS = "train.phases.0.parts.0.loss"


def patterns(schema: Any) -> Iterator[str]:
    below = schema.values() if isinstance(schema, dict) else schema
    for value in below if isinstance(schema, dict | list) else ():
        yield from patterns(value)
    if isinstance(schema, dict):
        yield from [text for text in [schema.get("pattern")] if isinstance(text, str)]
        yield from [name for name in schema.get("patternProperties", {}) if name.startswith("^")]


def test_every_pattern_of_a_recipe_is_told_in_words() -> None:
    assert set(patterns(json_schema())) == set(PATTERNS)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("name='my recipe!'", "name 'my recipe!'"),
        ("evaluate.splits=[tst]", "evaluate.splits.0 'tst' 'dev' 'test'"),
        ("run.memory_limit=lots", "run.memory_limit 'lots' 2GB"),
        ("trian={}", "'trian' 'train'"),
        ("corpora.0.sorce=a", "'corpora.0.sorce' 'source'"),
        (f"{LOSS}={{name: gaussian_decay, gat: 1}}", f"'{LOSS}.gat' 'gate'"),
        (f"{LOSS}=info_nc", "'info_nc' 'info_nce'"),
        # Another loss's.
        (f"{LOSS}={{name: info_nce, gat: 1}}", f"'{LOSS}.gat'."),
        ("models={m: {pretrain: {form: masked, init: x, tokns: 3}}}", "m.pretrain.tokns 'tokens'"),
        ("synthesise.negation.wight=1", "negation wight"),
        ("score={nonsense: }", "score.nonsense 'gense'"),
        ("score={evaluator: {depth: 3}}", "score.evaluator.depth"),
    ],
)
def test_a_fault_names_the_key_and_what_was_meant(typed: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        recipe_file.load("quickstart", [typed])
    assert all(word in str(caught.value) for word in words.split())
    assert "Input" not in str(caught.value)
