"""What a person can get wrong about a language model: one sentence each, and the exit code."""

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_run import Tiny, ended_well, tercet

Change = Callable[[dict[str, Any], Path, Path], None]


def endpoint(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["llm"] = {"name": "somebody"}
    recipe["run"]["llm"] = {"endpoints": ["http://127.0.0.1:9/v1"], "patience": 2}


def without_llm(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    del recipe["llm"]


def name_without_endpoint(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["llm"] = {"name": "somebody"}


def both(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["llm"]["name"] = "somebody"


def wrong_path(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["llm"]["model"] = str(folder / "nowhere")


def no_weights(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    copy = folder / "bare"
    copy.mkdir()
    shutil.copy(model / "config.json", copy)
    recipe["llm"]["model"] = str(copy)


def no_vllm(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["run"]["llm"] = {"engine": {"python": sys.executable}}


def no_python(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["run"]["llm"] = {"engine": {"python": str(folder / "python")}}


def unknown_variable(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    (folder / "own.jinja").write_text("Say it anew:\n{{ sentense }}")
    recipe["synthesise"] = {"rewrite": {"prompt": str(folder / "own.jinja")}}


def no_prompt(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["synthesise"] = {"rewrite": {"prompt": str(folder / "none.jinja")}}


def broken_prompt(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    (folder / "own.jinja").write_text("{% if sentence %}\n{{ sentence }}")
    recipe["synthesise"] = {"rewrite": {"prompt": str(folder / "own.jinja")}}


def no_types(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["extract_generate"] = {"types": []}


def same_type_twice(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["extract_generate"] = {"types": ["place", "Place"]}


def two_extractions(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["extract"] = {"names": False}
    recipe["extract_generate"] = None


def cost_without_price(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["run"]["llm"] = {"max_cost": 3}


def password(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["run"]["llm"] = {"endpoints": ["http://me:secret@127.0.0.1:9/v1"]}


def no_address(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["run"]["llm"] = {"endpoints": ["127.0.0.1:8000"]}


def same_text_thrice(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["synthesise"] = {"rewrite": {"per_unit": 3, "temperature": 0}}


def dtype_of_an_endpoint(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    endpoint(recipe, folder, model)
    recipe["llm"]["dtype"] = "bfloat16"


def template_of_a_base_model(recipe: dict[str, Any], folder: Path, model: Path) -> None:
    recipe["llm"] |= {"api": "completions", "template_kwargs": {"enable_thinking": False}}


CASES: list[tuple[Change, int, str]] = [
    (endpoint, 1, "127.0.0.1:9"),
    (without_llm, 2, "asks a language model: name it under `llm`"),
    (name_without_endpoint, 2, "run.llm.endpoints"),
    (both, 2, "either `model` or `name`"),
    (wrong_path, 2, "nowhere"),
    (no_weights, 2, "safetensors"),
    (no_vllm, 2, "vLLM"),
    (no_python, 2, "python"),
    (unknown_variable, 2, "sentense"),
    (no_prompt, 2, "none.jinja"),
    (broken_prompt, 2, "own.jinja"),
    (no_types, 2, "types"),
    (same_type_twice, 2, "twice"),
    (two_extractions, 2, "either rules extract"),
    (cost_without_price, 2, "price_in"),
    (password, 2, "must not hold a password"),
    (no_address, 2, "not an http:// or https:// address"),
    (same_text_thrice, 2, "gives the same answer 3 times"),
    (dtype_of_an_endpoint, 2, "belongs to `model`"),
    (template_of_a_base_model, 2, "belongs to `api: chat`"),
]


@pytest.fixture
def prompted(tiny: Tiny) -> dict[str, Any]:
    recipe: dict[str, Any] = yaml.safe_load(tiny.recipe.read_text())
    own: dict[str, Any] = {"name": "bad", "sample": {"rows": 20}}
    return recipe | own | {"synthesise": {"rewrite": None}, "select": {}}


@pytest.mark.parametrize(("change", "code", "said"), CASES, ids=[c[0].__name__ for c in CASES])
def test_one_sentence_and_the_exit_code(
    change: Change,
    code: int,
    said: str,
    prompted: dict[str, Any],
    tiny_llm: Path,
    tmp_path: Path,
) -> None:
    prompted["llm"] = {"model": str(tiny_llm)}
    change(prompted, tmp_path, tiny_llm)
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(prompted))
    store = str(tmp_path / "store")
    done = tercet("run", str(path), "--no-server", "--store", store, "--until", "candidates")
    told = [line for line in done.stderr.splitlines() if line.startswith("tercet:")]
    assert done.returncode == code, done.stderr
    assert len(told) == 1
    assert said in told[0]
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr + done.stdout


def test_a_missing_vllm_is_told_before_any_step(
    prompted: dict[str, Any], tiny_llm: Path, tmp_path: Path
) -> None:
    prompted["llm"] = {"model": str(tiny_llm)}
    no_vllm(prompted, tmp_path, tiny_llm)
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(prompted))
    store = tmp_path / "store"
    done = tercet("run", str(path), "--no-server", "--store", str(store))
    assert done.returncode == 2
    (said,) = [line for line in done.stderr.splitlines() if line]
    assert said.startswith("tercet: There is no vLLM in ")
    assert not list((store / "artifacts").glob("*"))


def test_a_model_without_a_chat_template(
    prompted: dict[str, Any], tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    mute = Path(shutil.copytree(tiny_llm, tmp_path / "mute"))
    for file in mute.glob("chat_template*"):
        file.unlink()
    settings = mute / "tokenizer_config.json"
    content = yaml.safe_load(settings.read_text())
    content.pop("chat_template", None)
    settings.write_text(json.dumps(content))
    prompted["llm"] = {"model": str(mute)}
    prompted["run"]["llm"] = {"engine": {"python": vllm_python}}
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(prompted))
    store = str(tmp_path / "store")
    done = tercet("run", str(path), "--no-server", "--store", store, "--until", "candidates")
    assert done.returncode == 2, done.stderr
    assert "llm.api" in done.stderr


def test_a_port_that_is_taken(
    prompted: dict[str, Any], tiny_llm: Path, vllm_python: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        prompted["llm"] = {"model": str(tiny_llm)}
        prompted["run"]["llm"] = {"engine": {"python": vllm_python, "port": port}}
        path = tmp_path / "bad.yaml"
        path.write_text(yaml.safe_dump(prompted))
        store = str(tmp_path / "store")
        done = tercet("run", str(path), "--no-server", "--store", store, "--until", "candidates")
    assert done.returncode == 2
    assert str(port) in done.stderr.splitlines()[-1]
    # What came before it stands, and the next good run goes on from there.
    prompted["synthesise"] = {"word_repetition": None}
    prompted["run"].pop("llm")
    path.write_text(yaml.safe_dump(prompted))
    ended_well(tercet("run", str(path), "--no-server", "--store", store, "--until", "candidates"))
