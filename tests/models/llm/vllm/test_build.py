"""A VAEGPT is served with this version's plugin alone, and without prefix caching."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

from failures import fails

from tercet.models.llm.run_settings import EngineSettings
from tercet.models.llm.settings import LlmSettings
from tercet.models.llm.vllm.build import Plugin, VllmBuild, is_vaegpt, look
from tercet.models.llm.vllm.engine import command


def words(folder: Path, plugin: Plugin) -> list[str]:
    build = VllmBuild(Path("/venv/bin/python"), "1.2.3", True, plugin)
    return command(build, folder, LlmSettings(model=str(folder)), EngineSettings(), 8123)


def test_it_is_known_by_its_configuration(tmp_path: Path) -> None:
    assert not is_vaegpt(tmp_path)
    (tmp_path / "config.json").write_text("{broken")
    assert not is_vaegpt(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    assert not is_vaegpt(tmp_path)
    assert "--enable-prefix-caching" in words(tmp_path, "missing")


def test_prefixes_are_not_cached_and_the_plugin_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "vaegpt"}')
    assert "--no-enable-prefix-caching" in words(tmp_path, "current")
    for plugin in ("missing", "stale"):
        with fails("missing_package", "plugin"):
            words(tmp_path, plugin)


def test_a_plugin_with_other_code_is_seen(tmp_path: Path) -> None:
    """The package stands in for vLLM, which `look` does not import."""
    venv.create(tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    packages = Path(told.stdout.strip())
    assert look(python) is None
    (packages / "vllm").mkdir()
    (packages / "vllm/__init__.py").touch()
    assert look(python) == VllmBuild(python, "unknown", False, "missing")
    plugin = Path(sys.modules["tercet.models.vaegpt"].__path__[0]) / "plugin"
    shutil.copytree(plugin, packages / "tercet_vaegpt")
    assert look(python) == VllmBuild(python, "unknown", False, "current")
    with (packages / "tercet_vaegpt/latent.py").open("a") as file:
        file.write("# mended since\n")
    assert look(python) == VllmBuild(python, "unknown", False, "stale")
