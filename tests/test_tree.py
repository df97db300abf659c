"""Tests lie at the paths of their modules."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("flows", "tasks", "models", "storage")
WHOLE = Path("flows/whole")
# Tests of a folder's modules together, and what they test of all of them.
OF_A_FOLDER = {
    "flows/report/test_sections.py": "every section of a report, of a store that is written down",
    "flows/report/test_in_browser.py": "the page in a browser",
    "models/rules/test_positives.py": "what all rules for positives have in common, and each one",
    "models/prompted/test_methods.py": "what all prompted methods have in common",
}


def _mirrors() -> list[Path]:
    found = sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py"))
    return [path for path in found if path.parts[0] in FOLDERS and WHOLE not in path.parents]


def modules(test: Path) -> list[str]:
    """The modules of the folder that this test mirrors: `test_client_faults` is one of `client`."""
    name = test.stem.removeprefix("test_")
    beside = (path.stem for path in (ROOT / test.parent).glob("*.py"))
    return [stem for stem in beside if name == stem or name.startswith(f"{stem}_")]


@pytest.mark.parametrize("test", _mirrors(), ids=str)
def test_a_test_lies_where_its_module_lies(test: Path) -> None:
    if str(test) in OF_A_FOLDER:
        assert (ROOT / test.parent).is_dir()
    else:
        assert modules(test), f"there is no module {test.parent / test.stem.removeprefix('test_')}"


def test_what_is_listed_is_there() -> None:
    assert set(OF_A_FOLDER) <= {str(path) for path in _mirrors()}


def test_helpers_are_no_tests() -> None:
    helpers = (ROOT / "tests" / "support").glob("*.py")
    assert [path.name for path in helpers if path.name.startswith("test_")] == []
