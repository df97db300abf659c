"""What a recipe may say of a pooling, without torch."""

import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from tercet.models.encoders.pooling import FormSettings, pooling_name, read_pooling, template_of


@pytest.mark.parametrize("pooling", ["cls", ("cls", "mean"), "mask", "first_decoder"])
def test_a_pooling_and_its_name(pooling: Any) -> None:
    assert read_pooling(pooling_name(pooling)) == pooling
    assert FormSettings(pooling=pooling).pooling == pooling


@pytest.mark.parametrize("name", ["median", "cls+median", "mask+cls", "", "cls+"])
def test_a_name_that_is_not_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"choose mean, cls, .*first_decoder"):
        read_pooling(name)


@pytest.mark.parametrize(
    ("pooling", "prompt", "said"),
    [
        (None, "in short", "needs pooling: mask or pooling: first_decoder"),
        ("cls", "{sentence} {mask}", "needs pooling: mask or pooling: first_decoder"),
        ("mask", "{sentence} in short", "0 {mask}"),
        ("mask", "{sentence} {sentence} {mask}", "2 {sentence}"),
        ("first_decoder", "{sentence} in short", "leave {sentence} out"),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_at_its_key(
    pooling: Any, prompt: str, said: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        FormSettings(pooling=pooling, prompt=prompt)
    (error,) = raised.value.errors()
    assert error["loc"] == ("prompt",)
    assert said in error["msg"]


def test_templates() -> None:
    assert template_of("mask", "{mask}: {sentence}") == "{mask}: {sentence}"
    assert template_of("first_decoder", " in short") == "{sentence} in short"
    assert template_of("mask", None).count("{mask}") == 1


def test_naming_a_pooling_loads_no_torch() -> None:
    program = "import sys, tercet.models.encoders.pooling; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
