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
    ("typed", "said"),
    [
        (
            "name='my recipe!'",
            "name is 'my recipe!', but may hold letters, digits, dots, dashes and underscores only",
        ),
        ("name=3", "name is 3, but must be text."),
        ("sample.rows=many", "sample.rows is 'many', but must be a whole number."),
        ("sample.rows=1.5", "sample.rows is 1.5, but must be a whole number."),
        ("sample.rows=0", "sample.rows is 0, but must be greater than or equal to 1."),
        ("select.negative_max=a", "select.negative_max is 'a', but must be a number."),
        ("evaluate.halves=maybe", "evaluate.halves is 'maybe', but must be true or false."),
        ("evaluate.splits=[tst]", "evaluate.splits.0 is 'tst', but must be 'dev' or 'test'."),
        ("evaluate.suite=3", "evaluate.suite is 3, but must be a path."),
        ("run.memory_limit=lots", "run.memory_limit is 'lots', but must be a size such as 2GB"),
        ("trian={}", "unknown key 'trian'; the nearest is 'train'."),
        ("sample.row=3", "unknown key 'sample.row'; the nearest is 'rows'."),
        ("corpora.0.sorce=a", "unknown key 'corpora.0.sorce'; the nearest is 'source'."),
        ("train.phases.0.lr=1", "unknown key 'train.phases.0.lr'."),
        (f"{LOSS}={{name: gaussian_decay, gat: 1}}", f"'{LOSS}.gat'; the nearest is 'gate'."),
        (
            f"{LOSS}=info_nc",
            "there is no loss 'info_nc'; the nearest is 'info_nce': choose one of ",
        ),
        # Another loss's.
        (f"{LOSS}={{name: info_nce, gat: 1}}", f"unknown key '{LOSS}.gat'."),
        (
            "models={m: {pretrain: {form: masked, init: x, tokns: 3}}}",
            "unknown key 'models.m.pretrain.tokns'; the nearest is 'tokens'.",
        ),
        ("synthesise.negation.wight=1", "negation: parameter wight is unknown (the method's"),
        ("score={length: {}}", "unknown scorer 'length'"),
        ("score={nonsense: }", "score.nonsense: unknown scorer 'nonsense'; the nearest is 'gense'"),
        ("score={evaluator: {depth: 3}}", "score.evaluator.depth: evaluator: parameter depth is "),
    ],
)
def test_a_fault_is_one_clean_sentence(typed: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        recipe_file.load("quickstart", [typed])
    assert said in str(caught.value)
    assert "Input" not in str(caught.value)
