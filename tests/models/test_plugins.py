"""What installed packages add, and how each of their faults is told."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from tercet.models import plugins
from tercet.models.errors import Unusable
from tercet.models.losses import info_nce, nt_xent
from tercet.models.losses.loss import Loss

GROUP = "tercet.losses"
OURS, THEIRS = info_nce.__name__, nt_xent.__name__


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The losses with these entry points, each of a package of its own."""

    def added(*values: str) -> dict[str, Loss]:
        points = [EntryPoint("a", value, GROUP) for value in values]
        for number, point in enumerate(points):
            vars(point)["dist"] = SimpleNamespace(name=f"toys{number}", version="1.2")
        monkeypatch.setattr(plugins, "installed", lambda group: points if group == GROUP else ())
        return plugins.with_installed(GROUP, (info_nce.LOSS,))

    return added


def test_an_object_joins_ours_and_knows_its_module_and_package(add: Any) -> None:
    found = add(f"{THEIRS}:LOSS")
    assert list(found) == ["info_nce", "nt_xent"]
    assert found["info_nce"] is info_nce.LOSS
    assert found["nt_xent"].module == THEIRS
    assert plugins.package_of(THEIRS) == "toys0 1.2"


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["no_such_module:LOSS"], "ModuleNotFoundError"),
        ([f"{THEIRS}:GONE"], "AttributeError"),
        ([f"{THEIRS}:build"], "Loss"),
        ([f"{OURS}:LOSS"], "'info_nce'"),
        ([f"{THEIRS}:LOSS"] * 2, "'nt_xent'.*toys0 1.2"),
    ],
)
def test_a_fault_names_the_entry_point_and_its_package(
    values: list[str], names: str, add: Any
) -> None:
    with pytest.raises(Unusable, match=r"'a' .*tercet.losses.*toys\d 1.2.*" + names):
        add(*values)
