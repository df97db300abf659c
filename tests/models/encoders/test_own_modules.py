"""Encoders with modules of ours, saved and loaded: by the library alone, and by us."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from own_code import own_code
from sentence_transformers import SentenceTransformer
from tiny_t5 import tiny_t5

from tercet.models.encoders.encoder import encode, load_encoder, save_encoder
from tercet.models.encoders.settings import CnnPooling, StatePooling

TEXTS = ["the old file is open", "read a row of the array", "green", "red " * 90]
SOURCE = "tercet_template_encoder.py"

_ALONE = """
import json, sys
sys.modules["tercet"] = None
from sentence_transformers import SentenceTransformer
try:
    SentenceTransformer(sys.argv[1], device="cpu")
except ValueError as error:
    assert "trust_remote_code" in str(error), error
else:
    raise AssertionError("code of ours ran unasked")
model = SentenceTransformer(sys.argv[1], device="cpu", trust_remote_code=True)
print(json.dumps(model.encode(json.loads(sys.argv[2])).tolist()))
"""


def _saved(tmp_path: Path, backbone: Path, pooling: StatePooling | CnnPooling = "mask") -> Path:
    if pooling == "first_decoder":
        backbone = tiny_t5(tmp_path / "t5", ["the", "old", "file", "open", "read", "row"])
    return save_encoder(load_encoder(backbone, pooling, cnn_seed=0), tmp_path / "saved")


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mask", "first_decoder", "token_cnn"])
def test_the_library_alone_gives_the_same_vectors(
    tmp_path: Path, tiny_backbone: Path, pooling: StatePooling | CnnPooling
) -> None:
    path = _saved(tmp_path, tiny_backbone, pooling)
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ALONE, str(path), json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        timeout=1200,
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
    )
    assert done.returncode == 0, done.stderr
    found = np.array(json.loads(done.stdout.splitlines()[-1]))
    model = load_encoder(path)
    assert np.abs(found - model.encode(TEXTS)).max() <= 1e-6
    assert np.abs(found - encode(model, TEXTS, normalise=False)).max() <= 1e-6


def test_our_loader_needs_no_trust_and_keeps_the_form(tmp_path: Path, tiny_backbone: Path) -> None:
    made = load_encoder(tiny_backbone, "mask", prompt="{mask} is {sentence}", max_length=20)
    made.prompts, made.default_prompt_name = {"short": "new "}, "short"
    again = load_encoder(save_encoder(made, tmp_path / "saved"))
    assert again[0].template == "{mask} is {sentence}"
    assert (again.max_seq_length, again.default_prompt_name) == (20, "short")
    np.testing.assert_array_equal(encode(made, TEXTS), encode(again, TEXTS))
    assert not np.allclose(encode(again, TEXTS), encode(load_encoder(tiny_backbone, "mask"), TEXTS))


_FOREIGN = """
import json, pathlib
from torch import nn
from .foreign_number import NUMBER

class Twice(nn.Module):
    def forward(self, features):
        features["sentence_embedding"] = NUMBER * features["sentence_embedding"]
        return features

    def save(self, output_path, *given, **named):
        pathlib.Path(output_path, "config.json").write_text("{}")

    @classmethod
    def load(cls, *given, **named):
        return cls()
"""


def test_code_that_came_with_a_model_is_saved_with_it(tmp_path: Path, tiny_backbone: Path) -> None:
    path = tmp_path / "foreign"
    SentenceTransformer(modules=list(load_encoder(tiny_backbone)), device="cpu").save(str(path))
    entries = json.loads((path / "modules.json").read_text())
    entries.append({"idx": 2, "name": "2", "path": "2_Twice", "type": "foreign_module.Twice"})
    (path / "modules.json").write_text(json.dumps(entries))
    (path / "2_Twice").mkdir()
    (path / "foreign_module.py").write_text(_FOREIGN)
    (path / "foreign_number.py").write_text("NUMBER = 2\n")
    model = load_encoder(path, trust_remote_code=True)
    saved = save_encoder(model, tmp_path / "saved")
    shutil.rmtree(path)
    with pytest.raises(ValueError, match="code"):
        load_encoder(saved)
    again = load_encoder(saved, trust_remote_code=True)
    found = encode(again, TEXTS, normalise=False)
    np.testing.assert_array_equal(found, encode(model, TEXTS, normalise=False))
    plain = encode(load_encoder(tiny_backbone), TEXTS, normalise=False)
    np.testing.assert_allclose(found, 2 * plain, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mask", "token_cnn"])
def test_a_transformer_with_code_of_its_own_is_loaded_again_where_that_is_trusted(
    tmp_path: Path, tiny_backbone: Path, pooling: StatePooling | CnnPooling
) -> None:
    backbone = own_code(tiny_backbone, tmp_path / "backbone")
    model = load_encoder(backbone, pooling, trust_remote_code=True, cnn_seed=0)
    saved = save_encoder(model, tmp_path / "saved")
    with pytest.raises(ValueError, match="code"):
        load_encoder(saved)
    # Not even then does the file of our own module run.
    ran, (source,) = tmp_path / "ran", saved.glob("tercet_*.py")
    source.write_text(f"open({str(ran)!r}, 'w')\n")
    again = load_encoder(saved, trust_remote_code=True)
    np.testing.assert_array_equal(encode(again, TEXTS), encode(model, TEXTS))
    assert not ran.exists()


def test_source_that_was_tampered_with_is_not_run(tmp_path: Path, tiny_backbone: Path) -> None:
    path = _saved(tmp_path, tiny_backbone)
    before = encode(load_encoder(path), TEXTS)
    ran = tmp_path / "ran"
    (path / SOURCE).write_text(f"open({str(ran)!r}, 'w')\n")
    np.testing.assert_array_equal(encode(load_encoder(path), TEXTS), before)
    assert not ran.exists()


@pytest.mark.parametrize("name", ["tercet_other.MarkedState", "foreign.Module", "os.system"])
def test_a_class_that_is_not_listed_is_refused(
    tmp_path: Path, tiny_backbone: Path, name: str
) -> None:
    path, ran = _saved(tmp_path, tiny_backbone), tmp_path / "ran"
    entries = json.loads((path / "modules.json").read_text())
    entries[1]["type"] = name
    (path / "modules.json").write_text(json.dumps(entries))
    (path / f"{name.split('.')[0]}.py").write_text(f"open({str(ran)!r}, 'w')\n")
    with pytest.raises(ValueError, match="code"):
        load_encoder(path)
    assert not ran.exists()


def test_a_module_outside_the_directory_is_refused(tmp_path: Path, tiny_backbone: Path) -> None:
    path = _saved(tmp_path, tiny_backbone)
    entries = json.loads((path / "modules.json").read_text())
    entries[1]["path"] = "../elsewhere"
    (path / "modules.json").write_text(json.dumps(entries))
    with pytest.raises(ValueError, match="outside"):
        load_encoder(path)
