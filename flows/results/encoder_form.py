"""The form (pooling and template) of an encoder: in its files, as evaluated, and for older
sentence-transformers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tercet.models.encoders.settings import (
    FIRST_LAST,
    FormSettings,
    PoolingMode,
    Prompts,
    has_sides,
    pooling_name,
    template_of,
)
from tercet.storage.artifacts import Artifact, open_artifact
from tercet.storage.runs import Run
from tercet.storage.store import Store
from tercet.tasks.evaluation import evaluate
from tercet.tasks.stage import BadInput


@dataclass(frozen=True)
class Reformed:
    """An encoder trained in one form and evaluated in another, both in words."""

    trained: str
    measured: str


def measured_form(store: Store, run: Run | None, artifact: Artifact) -> FormSettings:
    """The form in which the run evaluated this encoder; empty if it was the encoder's own.

    Raises: BadInput if its evaluations disagree.
    """
    forms: dict[tuple[PoolingMode | None, str | None], None] = {}
    for step in [] if run is None else run["steps"]:
        if step.get("stage", step["step"]) != evaluate.STAGE.name:
            continue
        artifact_made = open_artifact(store, step["step"], step["version"])
        components = artifact_made.components()
        if artifact.version in (components.get("models") or {}).values():
            config = components.get("config") or {}
            form = FormSettings(pooling=config.get("pooling"), prompt=config.get("prompt"))
            forms[form.pooling, form.prompt] = None
    if len(forms) > 1:
        raise BadInput(
            "bad_value",
            f"{artifact.name} was evaluated with several poolings: choose the "
            "run whose pooling to use with --run.",
        )
    pooling, prompt = next(iter(forms), (None, None))
    return FormSettings(pooling=pooling, prompt=prompt)


def reformed(folder: Path, form: FormSettings) -> Reformed | None:
    """Both forms, if the directory's encoder has another form than was evaluated; else None."""
    if form.pooling is None:
        return None
    pooling, template = form_of(folder)
    measured = None
    if form.pooling == "mask" or form.pooling == "first_decoder":
        # Without a prompt the encoder keeps its own template, if it has one.
        is_same = form.prompt is None and pooling == form.pooling
        measured = template if is_same else template_of(form.pooling, form.prompt)
    if (pooling, template) == (pooling_name(form.pooling), measured):
        return None
    return Reformed(_describe(pooling, template), _describe(pooling_name(form.pooling), measured))


def form_of(folder: Path) -> tuple[str | None, str | None]:
    """Pooling name and template according to the directory's files; None if not set there."""
    pooling: str | None = None
    for config in sorted(folder.glob("*/config.json")):
        if mode := read_json(config).get("pooling_mode"):
            pooling = mode if isinstance(mode, str) else "+".join(mode)
            break
    if any(str(e.get("type")).endswith(".WeightedLayerPooling") for e in _modules(folder)):
        pooling = FIRST_LAST
    return pooling, read_json(folder / "template_encoder.json").get("template")


def runs_own_code(artifact: Artifact) -> bool:
    """Whether the recipe let the backbone's own Python code run, which the encoder then needs."""
    return bool((artifact.components().get("config") or {}).get("trust_remote_code", False))


def needs_trust(folder: Path) -> bool:
    """Whether plain sentence-transformers loads the directory only with trust_remote_code."""
    modules = _modules(folder)
    if any(not str(m.get("type")).startswith("sentence_transformers.") for m in modules):
        return True
    # If the backbone's own code never ran, config.json has its auto_map, but there is no code.
    places = {folder, *(folder / str(m.get("path", "")) for m in modules)}
    mapped = any("auto_map" in read_json(place / "config.json") for place in places)
    return mapped and any(folder.rglob("*.py"))


def _modules(folder: Path) -> list[dict[str, Any]]:
    modules: list[dict[str, Any]] = read_json(folder / "modules.json", list)
    return modules


def how_to_load(folder: Path) -> list[str]:
    """The lines of Python that load an encoder's directory and encode a text."""
    trust = ", trust_remote_code=True" if needs_trust(folder) else ""
    encoded = ['model.encode(["a sentence of your field"])']
    if has_sides(folder, Prompts()):
        encoded = [
            'model.encode_query(["a question of your field"])',
            'model.encode_document(["a text that answers it"])',
        ]
    return [
        "from sentence_transformers import SentenceTransformer",
        f"model = SentenceTransformer({str(folder)!r}{trust})",
        *encoded,
    ]


def _describe(pooling: str | None, template: str | None) -> str:
    named = pooling or "its own"
    return named if template is None else f"{named} in the template {template!r}"


def read_json(path: Path, kind: type = dict) -> Any:
    """The content of an encoder's file; empty if it is missing or holds another type."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return kind()
    return content if isinstance(content, kind) else kind()


# Pooling modes, and the flags that sentence-transformers 5 has in their place.
_FLAGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
_DENSE = ("in_features", "out_features", "bias", "activation_function")
_PLAIN = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}


def versions(folder: Path) -> str:
    """The major versions of sentence-transformers that can read the encoder's exported files."""
    return "6" if older_files(folder) is None else "5 or 6"


def older_files(folder: Path) -> dict[str, str] | None:
    """The files of an encoder's directory that sentence-transformers 5 needs in another form.

    None if only version 6 can read the encoder: if it has custom modules, several poolings, other
    inputs than text, or a tokenizer that only transformers 5 has.
    """
    modules = _modules(folder)
    tokenizer = read_json(folder / "tokenizer_config.json").get("tokenizer_class")
    if not modules or tokenizer == "TokenizersBackend":
        return None
    files: dict[str, Any] = {"modules.json": modules}
    for module in modules:
        package, _, kind = str(module.get("type")).rpartition(".")
        path = Path(str(module.get("path", "")))
        name = "sentence_bert_config.json" if kind == "Transformer" else "config.json"
        older = _older(kind, read_json(folder / path / name))
        if not package.startswith("sentence_transformers.") or older is None:
            return None
        module["type"] = f"sentence_transformers.models.{kind}"
        files |= {(path / name).as_posix(): older} if older else {}
    return {name: json.dumps(content, indent=2) for name, content in files.items()}


def _older(kind: str, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """A module's config in the older form; empty if that is its form already."""
    if kind == "Normalize" or (kind == "Pooling" and "word_embedding_dimension" in config):
        return {}
    if kind == "Dense" and config.get("module_input_name") == "sentence_embedding":
        return {key: config[key] for key in _DENSE if key in config}
    if kind == "Transformer" and config.get("modality_config", _PLAIN) == _PLAIN:
        settings = {
            key: config[key] for key in ("max_seq_length", "do_lower_case") if key in config
        }
        return {"do_lower_case": False, **settings}
    mode = config.get("pooling_mode")
    if kind != "Pooling" or not isinstance(mode, str) or mode not in _FLAGS:
        return None
    flags = {flag: one == mode for one, flag in _FLAGS.items()}
    width, prompt = config.get("embedding_dimension"), config.get("include_prompt", True)
    return {"word_embedding_dimension": width, **flags, "include_prompt": prompt}
