"""Settings of a generator: the paper's decoding by default, and what cannot be drawn is refused."""

import pytest
from pydantic import ValidationError

from tercet.models.generators.settings import GeneratorSettings


def test_the_defaults_are_the_papers_decoding() -> None:
    how = GeneratorSettings(model="m").decoding()
    assert (how.beams, how.no_repeat, how.temperature, how.top_k) == (3, 4, 1, 50)
    assert how.by_seed


def test_through_vllm_sampling_is_plain() -> None:
    how = GeneratorSettings(model="m", backend="vllm", temperature=0.7).decoding()
    assert (how.beams, how.no_repeat, how.top_k, how.max_new) == (1, 0, 0, None)
    assert (how.backend, how.temperature) == ("vllm", 0.7)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"backend": "vllm", "beams": 3}, "beams"),
        ({"backend": "vllm", "no_repeat": 4}, "no_repeat"),
        ({"beams": 8, "top_k": 10}, "top_k"),
    ],
)
def test_what_cannot_be_drawn_is_refused(given: dict[str, object], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        GeneratorSettings.model_validate({"model": "m", **given})
