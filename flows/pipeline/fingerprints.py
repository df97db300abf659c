"""Fingerprints of a pipeline's steps: what each result depends on, and what has changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from tercet.flows.pipeline.step import Step
from tercet.flows.recipe.names import Made, Model, Tagged
from tercet.models import weights
from tercet.models.generation import Method
from tercet.models.losses.loss import Loss
from tercet.storage import code, fingerprint, records, runs
from tercet.storage.artifacts import Artifact, all_artifacts, open_artifact
from tercet.storage.store import Store
from tercet.storage.verifying import faults_of
from tercet.tasks.stage import BadInput

UNKNOWN = "weights not fetched yet"
# The config key with the version that a step keeps.
KEEP = "keep"
# How many of the files that differ are named.
_FILES = 4

# Components that decide each row of a stage by its id; the inputs only decide which rows are made.
_RECALLED = ("stage", "config", "models", "externals", "code", "libraries")
_ASKED = ("stage", "config", "models", "externals", "seed")


@dataclass(frozen=True)
class Fingerprint:
    """The dependencies of a step's result.

    version: digest of the components, or None while some weights are not available yet.
    components: stage, config, inputs, models, externals, seed, code, libraries; and round, once
        failed rows have been retried.
    modules: digest of each module behind the component `code`, to name the one that changed.
    """

    version: str | None
    components: Mapping[str, Any]
    modules: Mapping[str, str] = field(default_factory=dict)

    @property
    def kept(self) -> str | None:
        """The version whose rows the step keeps; None if it keeps none."""
        version: str | None = self.components["config"].get(KEEP)
        return version


def fingerprints(
    steps: Sequence[Step], seed: int, store: Store, fetch: bool = False
) -> dict[str, Fingerprint]:
    """The fingerprint of each step, from the recipe, the code and files; nothing is run.

    With `fetch`, weights on a hub are downloaded; otherwise their version is unknown.

    Raises: BadInput if a model or file named in the recipe does not exist.
    """
    prints: dict[str, Fingerprint] = {}
    with code.remembered(store):
        for step in steps:
            prints[step.name] = _fingerprint(step, prints, seed, store, fetch)
    return prints


def external_digests(step: Step, store: Store) -> dict[str, str]:
    """Digests of the files outside the store named in the step's config. Raises BadInput."""
    return {
        name: value if isinstance(value, str) else _content(value, store, step.name)
        for name, value in sorted(step.stage.externals(step.config).items())
    }


def round_key(components: Mapping[str, Any]) -> str:
    """The key of a step's rounds: its requests and model, independent of its inputs and code."""
    return fingerprint.digest({name: components[name] for name in _ASKED})


def recalled_key(components: Mapping[str, Any]) -> str:
    """The key of a step's rows, of a stage that recalls them: the same id has the same row."""
    return fingerprint.digest({name: components.get(name) for name in _RECALLED})


def closure(step: Step) -> dict[str, str]:
    """The digest of each module whose code enters the step's version.

    These are the modules of the stage's function and of the methods or losses that its config
    chooses, and all modules of Tercet that they import; for an addition of an installed package,
    all modules of that package too. The declaration of a chosen method or loss has a digest of its
    own, since the module that lists declarations has none.
    """
    roots, within = {step.stage.run.__module__}, {"tercet.tasks", "tercet.models"}
    declarations: dict[str, str] = {}
    for chosen in step.stage.uses(step.config):
        if isinstance(chosen, Method | Loss):
            declaration = fingerprint.digest(code.declared(chosen))
            declarations[f"the declaration of {chosen.name}"] = declaration
        if isinstance(chosen, Loss):
            roots.add(chosen.code.partition(":")[0])
        roots |= {chosen} if isinstance(chosen, str) else code.modules_of(chosen)
        if module := getattr(chosen, "module", ""):
            roots.add(module)
            within.add(module.partition(".")[0])
    return code.code_digests(sorted(roots), sorted(within), step.stage.apart) | declarations


def part_key(
    components: Mapping[str, Any],
    models: Mapping[str, str],
    contents: Mapping[str, str],
    spec: Mapping[str, Any],
) -> str:
    """The key of one part: like the fingerprint, but with its inputs' contents, not versions."""
    of_step = {k: v for k, v in components.items() if k not in ("inputs", "models")}
    return fingerprint.digest(
        {"own": of_step, "models": dict(models), "contents": dict(contents), "spec": dict(spec)}
    )


def model_path(name: str) -> Path:
    """The path of the weights with this name, fetched if necessary. Raises BadInput."""
    try:
        return weights.fetch(name)
    except weights.ModelMissing as error:
        raise BadInput(error.kind, str(error)) from None


def tagged_model(store: Store, name: str) -> Artifact:
    """The artifact behind a tag, which must have left a model. Raises BadInput."""
    target = runs.get_tag(store, name)
    if target is None:
        tags = ", ".join(sorted(runs.list_tags(store)))
        none = f"There is no tag {name!r} in this store, only: {tags}"
        raise BadInput(
            "unknown_name",
            f"{none if tags else 'This store has no tags'}. Make the model first, and name it: "
            f"tercet tag STEP@VERSION {name}.",
        )
    step, _, version = target.partition("@")
    artifact = open_artifact(store, step, version)
    if not version or artifact.manifest() is None or artifact.model_dir() is None:
        fault = "is not a model" if artifact.records() else "was removed"
        what = f"{target}, which {fault}" if version else f"the run {target}"
        raise BadInput(
            "unfit_model",
            f"The tag {name!r} names {what}: tag the step that made the model, as in "
            f"tercet tag pretrain.NAME@VERSION {name}.",
        )
    return artifact


def kept_artifact(store: Store, step: str, ref: str) -> Artifact:
    """The version that the recipe keeps of a step; always one that was made, not one that keeps it.

    ref: `tag:NAME`, of a version or of a run, or STEP@VERSION. Raises BadInput.
    """
    target = runs.get_tag(store, ref)
    try:
        if target is None or "@" in target:
            artifact = runs.resolve_ref(store, ref)
        else:
            reached = {one["step"]: one["version"] for one in runs.resolve_run(store, ref)["steps"]}
            artifact = open_artifact(store, step, str(reached.get(step)))
    except runs.UnknownRef as error:
        raise BadInput("unknown_name", f"{step}.keep: {error}") from None
    manifest = artifact.manifest()
    if artifact.step != step or manifest is None or faults_of(artifact):
        raise BadInput(
            "unknown_name",
            f"{step}.keep: {ref} names no whole version of {step}: leave `keep` out for a run to "
            f"make one, then `tercet tag {step} NAME`.",
        )
    config = manifest["components"]["config"]
    stands_in = config.keys() == {KEEP} and config[KEEP] is not None
    return kept_artifact(store, step, f"{step}@{config[KEEP]}") if stands_in else artifact


def tagged(steps: Sequence[Step], store: Store) -> dict[str, str]:
    """By tag that these steps read: the STEP@VERSION or the run that it stands for.

    Versions that steps name without a tag are included, since nothing else may hold them.
    """
    names = {m.name for step in steps for m in step.models.values() if isinstance(m, Tagged)}
    artifacts = {name: tagged_model(store, name) for name in sorted(names)}
    return {name: artifact.name for name, artifact in artifacts.items()} | {
        ref.removeprefix(runs.TAG_PREFIX): runs.get_tag(store, ref)
        or runs.resolve_ref(store, ref).name
        for ref in (step.keep for step in steps)
        if ref is not None
    }


def made_model(store: Store, version: str) -> Path | None:
    """The directory of the model that an artifact of this version left, whatever its step."""
    with_version = (artifact for artifact in all_artifacts(store) if artifact.version == version)
    return next((folder for a in with_version if (folder := a.model_dir()) is not None), None)


def weights_version(store: Store, name: str, path: Path) -> str:
    """The version of the weights with this name, which lie at `path`. Raises ModelMissing."""
    # Other programs may put further files of the hub into the same directory.
    patterns = weights.FETCHED if weights.locate(name) is None else ("*",)
    return fingerprint.tree_digest(path, store, patterns)


def changes(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    old_modules: Mapping[str, str],
    new_modules: Mapping[str, str],
) -> list[str]:
    """The components that differ, in words: `config select.negative_max 0.75 → 0.8`, and so on."""
    changed: list[str] = []
    for key, before, after in _differences(old.get("config"), new.get("config")):
        changed.append(f"config {key}: {_short(before)} → {_short(after)}")
    files = [key for key, _, _ in _differences(old.get("externals"), new.get("externals"))]
    # Not all files are named: a suite of evaluation has sixty.
    changed += [f"file {key}" for key in files[:_FILES]]
    if len(files) > _FILES:
        changed.append(f"{len(files) - _FILES} more files")
    for key, _, _ in _differences(old.get("models"), new.get("models")):
        changed.append(f"model {key}")
    for key, before, after in _differences(old.get("libraries"), new.get("libraries")):
        changed.append(f"library {key}: {before} → {after}")
    if old.get("seed") != new.get("seed"):
        changed.append(f"seed: {old.get('seed')} → {new.get('seed')}")
    if old.get("code") != new.get("code"):
        names = sorted(
            name.removeprefix("tercet.")
            for name in old_modules.keys() | new_modules.keys()
            if old_modules.get(name) != new_modules.get(name)
        )
        changed.append(f"code of {', '.join(names) or 'the stage'}")
    if old.get("round") != new.get("round"):
        changed.append("failed rows asked about again")
    for key, _, _ in _differences(old.get("inputs"), new.get("inputs")):
        changed.append(f"input {key.split('.')[0]}")
    return list(dict.fromkeys(changed))


def _fingerprint(
    step: Step, prints: Mapping[str, Fingerprint], seed: int, store: Store, fetch: bool
) -> Fingerprint:
    stage = step.stage
    versions = {s: [prints[n].version for n in names] for s, names in step.inputs.items()}
    keep = {}
    if step.keep is not None:
        keep = {KEEP: kept_artifact(store, step.name, step.keep).version}
    if step.is_kept:
        return _kept(step, keep, versions)
    modules = closure(step)
    models = {slot: _model(source, prints, store, fetch) for slot, source in step.models.items()}
    components: dict[str, Any] = {
        "stage": stage.name,
        "config": without(step.config.model_dump(mode="json"), stage.locations) | keep,
        "inputs": versions,
        "models": models,
        "externals": external_digests(step, store),
        "seed": seed if stage.seeded else None,
        "code": fingerprint.digest(modules),
        "libraries": {name: _minor(name) for name in stage.libraries},
    }
    if stage.asks is not None and (
        number := records.current_round(store, step.name, round_key(components))
    ):
        components["round"] = number
    is_known = UNKNOWN not in models.values() and all(v for vs in versions.values() for v in vs)
    return Fingerprint(fingerprint.digest(components) if is_known else None, components, modules)


def _kept(step: Step, keep: Mapping[str, str], versions: Mapping[str, Any]) -> Fingerprint:
    """The fingerprint of a step that keeps the rows of an older version."""
    components = {
        "stage": step.stage.name,
        "config": dict(keep),
        "inputs": versions,
        "models": {},
        "externals": {},
        "seed": None,
        "code": "",
        "libraries": {},
    }
    is_known = all(v for vs in versions.values() for v in vs)
    return Fingerprint(fingerprint.digest(components) if is_known else None, components)


def _model(source: Model, prints: Mapping[str, Fingerprint], store: Store, fetch: bool) -> str:
    if isinstance(source, Made):
        return prints[source.step].version or UNKNOWN
    if isinstance(source, Tagged):
        return tagged_model(store, source.name).version
    try:
        path = weights.fetch(source.name) if fetch else weights.cached(source.name)
    except weights.ModelMissing as error:
        raise BadInput(error.kind, str(error)) from None
    return UNKNOWN if path is None else weights_version(store, source.name, path)


def _content(path: Path, store: Store, step: str) -> str:
    if not path.exists():
        raise BadInput(
            "missing_file",
            f"The file {str(path)!r} that the recipe names for {step} does not exist: "
            "correct its path, or put the file there.",
        )
    if path.is_dir():
        return fingerprint.tree_digest(path, store)
    return fingerprint.file_digest(path, store)


def _minor(distribution: str) -> str:
    """Major and minor version: patch releases are assumed not to change results."""
    try:
        return ".".join(metadata.version(distribution).split("+")[0].split(".")[:2])
    except metadata.PackageNotFoundError:
        return "absent"


def without(value: Any, paths: Sequence[str]) -> Any:
    """A JSON value without the values at these dotted paths; `*` stands for all members."""
    for path in paths:
        value = _pruned(value, path.split("."))
    return value


def _pruned(value: Any, path: Sequence[str]) -> Any:
    first, rest = path[0], path[1:]
    if isinstance(value, list) and first == "*":
        return [_pruned(member, rest) for member in value]
    if isinstance(value, dict) and first == "*":
        return {key: _pruned(member, rest) for key, member in value.items()}
    if not isinstance(value, dict) or first not in value:
        return value
    if not rest:
        return {key: member for key, member in value.items() if key != first}
    return {**value, first: _pruned(value[first], rest)}


def _differences(old: Any, new: Any, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Leaves that differ between two JSON values, by dotted key."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(k for k in new if k not in old)]
        nested = (
            _differences(old.get(k), new.get(k), f"{prefix}.{k}" if prefix else str(k))
            for k in keys
        )
        return [difference for differences in nested for difference in differences]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        nested = (
            _differences(a, b, f"{prefix}.{i}")
            for i, (a, b) in enumerate(zip(old, new, strict=True))
        )
        return [difference for differences in nested for difference in differences]
    return [] if old == new else [(prefix, old, new)]


def _short(value: Any) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:37] + "..."
