import time

import pytest
import yaml

from tercet.flows.recipe.yaml_text import parse


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [" + ", ".join("x" * 9) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 9) + "]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (bomb(30), "its aliases make more than 100,000 values"),
        ("a: &a [*a]", "an alias stands within what it names"),
        ("a: &a {b: *a}", "an alias stands within what it names"),
        ("[" * 5000 + "]" * 5000, "nested too deeply"),
        ("a: 1\nb: {c: 1, c: 2}", "duplicate key 'c'"),
        ("a: 2026-02-31", "day is out of range"),
        ("a: " + "9" * 5000, "Exceeds the limit"),
        ("a: !!python/object/apply:os.system ['touch ran']", "could not determine a constructor"),
        ("a: !!python/name:os.system", "could not determine a constructor"),
        ("? [a, b]\n: c", "found unhashable key"),
    ],
)
def test_what_is_no_recipe_costs_nothing(text: str, said: str) -> None:
    began = time.monotonic()
    with pytest.raises(yaml.MarkedYAMLError) as raised:
        parse(text)
    assert said in raised.value.problem
    assert time.monotonic() - began < 20


def test_aliases_are_as_good_as_what_they_name() -> None:
    node, content = parse("a: &a {b: [1, 2]}\nc: {<<: *a, d: *a}\n")
    assert node is not None
    assert content == {"a": {"b": [1, 2]}, "c": {"b": [1, 2], "d": {"b": [1, 2]}}}
    assert parse("") == (None, None)
