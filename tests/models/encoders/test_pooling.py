"""What a recipe may say of a pooling, without torch."""

from typing import Any

import pytest
from pydantic import ValidationError

from tercet.models.encoders.settings import FormSettings, pooling_name, read_pooling, template_of


@pytest.mark.parametrize("pooling", ["cls", ("cls", "mean"), "mask", "first_decoder"])
def test_a_pooling_and_its_name(pooling: Any) -> None:
    assert read_pooling(pooling_name(pooling)) == pooling
    assert FormSettings(pooling=pooling).pooling == pooling


@pytest.mark.parametrize("name", ["median", "cls+median", "mask+cls", "", "cls+"])
def test_a_name_that_is_not_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="first_decoder"):
        read_pooling(name)


@pytest.mark.parametrize(
    ("pooling", "prompt"),
    [
        (None, "in short"),
        ("cls", "{sentence} {mask}"),
        ("token_cnn", "means {mask}"),
        ("mask", "{sentence} in short"),
        ("mask", "{sentence} {sentence} {mask}"),
        ("first_decoder", "{sentence} in short"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_at_its_key(pooling: Any, prompt: str) -> None:
    with pytest.raises(ValidationError) as raised:
        FormSettings(pooling=pooling, prompt=prompt)
    assert [error["loc"] for error in raised.value.errors()] == [("prompt",)]


def test_templates() -> None:
    assert template_of("mask", "{mask}: {sentence}") == "{mask}: {sentence}"
    assert template_of("first_decoder", " in short") == "{sentence} in short"
    assert template_of("mask", None).count("{mask}") == 1
