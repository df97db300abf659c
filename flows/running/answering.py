"""Who answers a step's requests, and the keys of the answers in the pool."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tercet.errors import kind_of
from tercet.flows.recipe.model import Recipe
from tercet.models.errors import Unusable
from tercet.models.generators.layout import parted
from tercet.models.generators.settings import DTYPES
from tercet.models.llm.messages import Request
from tercet.models.llm.run_settings import AskingSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.wire import ANSWER, STOP, Wire
from tercet.storage import code, fingerprint
from tercet.storage.answers import open_pool
from tercet.storage.store import Store
from tercet.tasks.synthesis import fitted
from tercet.tasks.synthesis.methods import SynthesiseConfig

# Modules whose code is part of the key of a fitted generator's answer.
_DECODING = ("tercet.models.generators", "tercet.models.vaegpt")


@dataclass(frozen=True)
class Identity:
    """The identity of the model that answers, as far as it affects the answers.

    label: its name for people. digest: of weights, adapter and precision, or of the name alone; of
        a fitted generator, of weights, precision, backend and the code that decodes it.
    """

    label: str
    digest: str


def identity(config: Any, components: Mapping[str, Any]) -> Identity:
    """The identity of the model that a step asks.

    config: the step's. components: of its fingerprint (`fingerprints.Fingerprint`).
    """
    if (decoding := fitted.decoding_of(config)) is not None:
        weights = str(components["models"][fitted.SLOT])
        backend = decoding.backend
        parts = {
            "generator": weights,
            "precision": config.precision,
            "backend": backend,
            "code": _decoding(fitted.CODE[backend]),
        }
        return Identity(f"{config.params['generator']}@{weights[:8]}", fingerprint.digest(parts))
    llm: LlmSettings = config.llm
    if llm.name is not None:
        return Identity(llm.name, fingerprint.digest({"name": llm.name}))
    weights = str(components["models"]["llm"])
    content = {
        "weights": weights,
        "adapter": components["externals"].get("adapter"),
        "dtype": llm.dtype,
        "quantization": llm.quantization,
    }
    return Identity(f"{Path(llm.model or '').name}@{weights[:8]}", fingerprint.digest(content))


def digested(
    requests: Iterable[Request], method: str, config: Any, who: Identity
) -> Iterator[Request]:
    """The requests with their pool keys: digests of prompt, shots, model, sampling, schema and
    seed.

    In a fitted generator's prompt the source is digested separately, since only it may be cut.
    """
    # Keyed by object identity, so the objects are kept alive with their digests.
    bases: dict[tuple[int, int, int], tuple[Request, Any]] = {}
    by_pieces = fitted.decoding_of(config) is not None
    for request in requests:
        key = id(request.sampling), id(request.schema), id(request.shots)
        if key not in bases:
            common = {"model": who.digest, "sampling": request.sampling, "schema": request.schema}
            if not by_pieces:
                # The text appended to a base model's prompt, and its stop strings.
                common["api"] = "chat" if config.llm.api == "chat" else [ANSWER, *STOP]
                common["template"] = config.llm.template_kwargs
                if request.shots:
                    common["shots"] = request.shots
            bases[key] = request, hashlib.sha256(fingerprint.canonical(common))
        digest = bases[key][1].copy()
        digest.update(f"\x1f{request.seed}\x1f".encode())
        prompt = "\x1f".join(parted(request)) if by_pieces else request.prompt
        digest.update(prompt.encode("utf-8", "surrogatepass"))
        yield replace(request, method=method, digest=digest.hexdigest()[:32])


def served(config: SynthesiseConfig, folder: Path) -> tuple[LlmSettings, Wire]:
    """How vLLM serves a fitted generator: as a base model whose prompts have the generator's
    layout.

    Raises Unusable for T5, and for a directory without a layout.
    """
    from tercet.models.generators import generator

    laid = fitted.layout_of(folder)
    fitted.check_backend(config.params["generator"], "vllm", laid.form)
    try:
        render, most = generator.renderer(folder, laid)
    except ValueError as error:
        raise Unusable(kind_of(error, "unfit_model"), str(error)) from None
    llm = LlmSettings(model=str(folder), api="completions", dtype=DTYPES[config.precision])
    return llm, Wire("completions", render=render, max_tokens=most)


def cost(settings: AskingSettings, config: Any, prompt_tokens: int, n_tokens: int) -> float | None:
    """The cost of these tokens at the recipe's prices; None if it has none.

    config: of the step that asks: a fitted generator costs nothing.
    """
    if settings.price_in is None and settings.price_out is None:
        return None
    if fitted.decoding_of(config) is not None:
        return 0.0
    return (
        prompt_tokens * (settings.price_in or 0.0) + n_tokens * (settings.price_out or 0.0)
    ) / 1e6


def check_engine(
    store: Store, recipe: Recipe, asking: Iterable[tuple[Any, Mapping[str, Any]]]
) -> None:
    """Raises Unusable where a server of ours is needed and there is no vLLM.

    A model that has answered in the store before may be asked nothing new, and needs none.

    asking: config and fingerprint's components of each step that is to ask.
    """
    labels = {
        identity(config, components).label
        for config, components in asking
        if (
            decoding.backend == "vllm"
            if (decoding := fitted.decoding_of(config)) is not None
            else not recipe.run.llm.endpoints
        )
    }
    if not labels:
        return
    from tercet.models.llm.vllm import build

    with open_pool(store, recipe.name, "") as pool:
        if any(pool.rates(label) is None for label in labels):
            build.find(recipe.run.llm.engine.python)


@cache
def _decoding(modules: tuple[str, ...]) -> str:
    """The digest of the modules that decode, and of the modules that they import."""
    return fingerprint.digest(code.code_digests(modules, within=_DECODING))
