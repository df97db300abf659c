"""A method as a recipe or a package describes it."""

import pytest
from failures import fails

from tercet.models.generation import Method, Prompted
from tercet.models.prompted.asked import each_sentence
from tercet.tasks.synthesis import methods, prompted
from tercet.tasks.synthesis.methods import MethodSettings, check_params, method_of
from tercet.tasks.synthesis.synthesise import SynthesiseConfig

ASK = Method(
    "ask",
    "positive",
    "topic",
    each_sentence("ask"),
    Prompted,
    variables=("tone", "passage"),
    unit="passage",
    as_anchor=True,
    module="acme",
)


def test_a_method_of_a_package_keeps_what_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "METHODS", {**methods.METHODS, "ask": ASK})
    found = method_of("ask", MethodSettings())
    assert (found.unit, found.as_anchor) == ("passage", True)
    assert found.variables == ("tone", "passage")
    assert check_params("ask", MethodSettings())["unit"] == "passage"
    with fails("missing_key", "ask"):
        prompted.template_of(SynthesiseConfig(method="ask"))


def test_a_prompt_of_ours_is_about_a_sentence() -> None:
    config = SynthesiseConfig(method="paraphrase", params={"unit": "passage", "relation": "topic"})
    with fails("missing_key", "paraphrase"):
        prompted.template_of(config)
