"""The keys of answers: everything that changes a text changes its key, and a name does not."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from failures import fails

from tercet.flows.running import answering
from tercet.flows.running.answering import check_engine, digested, identity
from tercet.models.generators.settings import GeneratorSettings
from tercet.models.llm.messages import Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings, Sampling
from tercet.storage import code
from tercet.storage.answers import open_pool
from tercet.storage.store import open_store
from tercet.tasks.synthesis import fitted
from tercet.tasks.synthesis.methods import SynthesiseConfig

COMPONENTS: dict[str, Any] = {"models": {"generator": "a" * 16, "llm": "b" * 16}, "externals": {}}


def _fitted(name: str = "small", **settings: Any) -> SynthesiseConfig:
    own = GeneratorSettings(model="m", **settings)
    params = {"generator": name, "per_unit": 2}
    return SynthesiseConfig(
        method="paraphrase", params=params, decoding=own.decoding(), precision=own.precision
    )


def _key(
    config: SynthesiseConfig | None = None, components: Any = COMPONENTS, **changes: Any
) -> str:
    config = config or _fitted()
    asked = Request(0, "One row.", config.decoding, 5, source="One row.")
    (found,) = digested(
        [replace(asked, **changes)], "paraphrase", config, identity(config, components)
    )
    return found.digest


def test_a_language_models_keys_stay_as_they_were() -> None:
    """The store's pool is keyed by them: another key asks for every answer anew."""
    config = SimpleNamespace(llm=LlmSettings(name="x", api="completions"))
    request = Request(0, "Say it", Sampling(), 5, source="it")
    (found,) = digested([request], "rewrite", config, identity(config, COMPONENTS))
    assert found.digest == "347539f7e66e445a18e76547d9e387c2"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("precision", "bf16"), ("backend", "vllm"), ("temperature", 0.5), ("beams", 2)),
        *(("no_repeat", 3), ("top_k", 20), ("max_new", 2.0), ("max_tokens", 64)),
    ],
)
def test_every_setting_changes_a_generators_keys(name: str, value: Any) -> None:
    assert _key(_fitted(**{name: value})) != _key()


def test_model_seed_prompt_and_what_may_be_cut_change_the_key_and_the_name_does_not() -> None:
    other = {**COMPONENTS, "models": {"generator": "c" * 16}}
    keys = [
        _key(),
        _key(components=other),
        _key(seed=6),
        _key(prompt="Two rows.", source="Two rows."),
        _key(source="row"),
    ]
    assert len(set(keys)) == len(keys)
    assert _key(_fitted("little")) == _key()
    assert identity(_fitted("little"), COMPONENTS).label == "little@aaaaaaaa"


@pytest.mark.parametrize(
    ("backend", "module"),
    [
        ("transformers", "generators.decode"),
        ("transformers", "vaegpt.network"),
        ("vllm", "generators.layout"),
        ("vllm", "vaegpt.plugin.served"),
        ("vllm", "vaegpt.plugin.latent"),
    ],
)
def test_the_code_that_writes_is_part_of_the_key(backend: Any, module: str) -> None:
    modules = code.code_digests(fitted.CODE[backend], within=answering._DECODING)
    assert f"tercet.models.{module}" in modules


def test_a_missing_vllm_is_told_where_a_model_never_answered(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"))

    def check(config: Any, **settings: Any) -> None:
        asking = AskingSettings(engine={"python": sys.executable}, **settings)
        recipe: Any = SimpleNamespace(name="small", run=SimpleNamespace(llm=asking))
        check_engine(store, recipe, [(config, COMPONENTS)])

    step = SimpleNamespace(llm=LlmSettings(model="small"))
    with fails("missing_package", "vLLM"):
        check(step)
    check(step, endpoints=["http://127.0.0.1:9/v1"])
    # It writes in this process.
    check(_fitted())
    with open_pool(store, "small", "r") as pool:
        row = {"request_digest": "0" * 32, "method": "rewrite", "model": "small@bbbbbbbb"}
        row |= {"endpoint": "here", "raw": "text", "finish_reason": "stop"}
        pool.add({**row, "prompt_tokens": 1, "n_tokens": 1, "attempts": 1, "seconds": 0.5})
    check(step)
