"""What installed packages add, and how each of their faults is told."""

import sys
from importlib.metadata import EntryPoint
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tercet.models import plugins
from tercet.models.errors import Unusable
from tercet.models.losses.loss import Loss
from tercet.models.losses.registry import LOSSES

GROUP = "tercet.losses"
OURS = LOSSES["info_nce"]
THEIRS = "toys_of_a_test"


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The losses with these entry points, each of a package of its own."""

    module = ModuleType(THEIRS)
    vars(module).update(LOSS=LOSSES["nt_xent"], OURS=OURS, NUMBER=3)
    monkeypatch.setitem(sys.modules, THEIRS, module)

    def added(*values: str) -> dict[str, Loss]:
        points = [EntryPoint("a", value, GROUP) for value in values]
        for number, point in enumerate(points):
            vars(point)["dist"] = SimpleNamespace(name=f"toys{number}", version="1.2")
        monkeypatch.setattr(plugins, "installed", lambda group: points if group == GROUP else ())
        return plugins.with_installed(GROUP, (OURS,))

    return added


def test_an_object_joins_ours_and_knows_its_module_and_package(add: Any) -> None:
    found = add(f"{THEIRS}:LOSS")
    assert list(found) == ["info_nce", "nt_xent"]
    assert found["info_nce"] is OURS
    assert found["nt_xent"].module == THEIRS
    assert plugins.package_of(THEIRS) == "toys0 1.2"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["no_such_module:LOSS"], "ModuleNotFoundError"),
        ([f"{THEIRS}:GONE"], "AttributeError"),
        ([f"{THEIRS}:NUMBER"], "Loss"),
        ([f"{THEIRS}:OURS"], "'info_nce'"),
        ([f"{THEIRS}:LOSS"] * 2, "'nt_xent'.*toys0 1.2"),
    ],
)
def test_a_fault_names_the_entry_point_and_its_package(
    values: list[str], names: str, add: Any
) -> None:
    with pytest.raises(Unusable, match=r"'a' .*tercet.losses.*toys\d 1.2.*" + names):
        add(*values)
