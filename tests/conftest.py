"""What tests of several folders share, and the markers that say what a test needs."""

import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from surroundings import PARTS, part
from tiny_models import tiny_backbone, tiny_llm, tiny_texts

__all__ = ["tiny_backbone", "tiny_llm", "tiny_texts"]

# A slow machine is no fault of what is tested. The same examples each time: whoever wants others
# says `--hypothesis-profile=other`.
_SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("other", _SLOW)
settings.register_profile("same", _SLOW, derandomize=True)
settings.load_profile("same")

# A suite that is started in the background ignores SIGINT, and its children would too: then
# nothing could be interrupted by the tests of that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

WHOLE = Path(__file__).parent / "flows" / "whole"


def pytest_configure(config: pytest.Config) -> None:
    for name, needed in PARTS.items():
        config.addinivalue_line("markers", f"{name}: set by the fixture `{needed.fixture}`")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test says by its markers which parts of the machine it needs."""
    for item in items:
        if WHOLE in item.path.parents:
            item.add_marker("whole")
        used = getattr(item, "fixturenames", ())
        for name, needed in PARTS.items():
            if needed.fixture in used:
                item.add_marker(name)
        # Prefect takes its time to make a database and to start.
        if "prefect_folder" in used:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def vllm_python() -> str:
    """The interpreter that has vLLM."""
    return str(part("vllm"))


def _path_of(name: str) -> Any:
    """A fixture: where this part of the machine lies."""

    @pytest.fixture(scope="session", name=PARTS[name].fixture)
    def path() -> Path:
        return part(name)

    return path


chromium, postgres, smollm2, minilm, language, onnx, ray, data, namespaces = map(
    _path_of,
    (
        *("chromium", "postgres", "smollm2", "minilm", "language"),
        *("onnx", "ray", "data", "namespaces"),
    ),
)


@pytest.fixture(autouse=True)
def unconfigured_logger() -> Iterator[None]:
    """The command line configures Tercet's logger, for the whole process."""
    yield
    logger = logging.getLogger("tercet")
    logger.handlers, logger.propagate = [], True
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def bf16_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processor has no bf16, torch imitates it."""
    monkeypatch.setattr("tercet.models.machine.cpu_has_bf16", lambda: True)
