"""The time zone of a schedule: found by its name, or asked for, and never UTC in silence."""

import re
import shutil
import zoneinfo
from pathlib import Path

import pytest
from good_and_bad import Place, sentence

from tercet.flows.service import schedules, time_zone
from tercet.tasks.stage import BadInput

DATABASE = next((Path(folder) for folder in zoneinfo.TZPATH if Path(folder).is_dir()), None)
needs_files = pytest.mark.skipif(DATABASE is None, reason="the tz database has no files here")
RULES = ["CET-1CEST,M3.5.0,M10.5.0/3", "<+0545>-5:45", "EST5EDT,M3.2.0,M11.1.0", "Europe/Berlni",
         ":Nowhere/Land", "/nowhere/at/all", "../../etc/passwd", "localtime", "Europe"]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "zone"),
    [("Europe/Berlin", "Europe/Berlin"), (":Europe/Berlin", "Europe/Berlin"), ("", "UTC"),
     (":", "UTC"), ("UTC", "UTC"), ("EST5EDT", "EST5EDT"), (":Asia/Kathmandu", "Asia/Kathmandu"),
     ("Etc/GMT+5", "Etc/GMT+5")],
)  # fmt: skip
def test_a_name_is_a_zone(monkeypatch: pytest.MonkeyPatch, said: str, zone: str) -> None:
    monkeypatch.setenv("TZ", said)
    assert time_zone.of_machine() == zone


@needs_files
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Asia/Kathmandu", "America/New_York"])
@pytest.mark.parametrize("form", ["{}", ":{}", "link", ":link", "copy", ":copy"])
def test_a_file_is_a_zone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, zone: str, form: str
) -> None:
    assert DATABASE is not None
    (tmp_path / "link").symlink_to(DATABASE / zone)
    shutil.copyfile(DATABASE / zone, tmp_path / "copy")
    place = DATABASE / zone if "{" in form else tmp_path / form.removeprefix(":")
    monkeypatch.setenv("TZ", f"{':' if form.startswith(':') else ''}{place}")
    found = time_zone.of_machine()
    assert (DATABASE / found).read_bytes() == (DATABASE / zone).read_bytes()
    assert found == zone or "copy" in form


@needs_files
@pytest.mark.parametrize("named", [None, "Asia/Kathmandu\n", "nonsense", "Europe/Paris"])
@pytest.mark.parametrize("form", ["link", "copy"])
def test_the_machines_file_is_a_zone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str, named: str | None
) -> None:
    assert DATABASE is not None
    local = tmp_path / "localtime"
    if form == "link":
        local.symlink_to(DATABASE / "Asia/Kathmandu")
    else:
        shutil.copyfile(DATABASE / "Asia/Kathmandu", local)
    if named is not None:
        (tmp_path / "timezone").write_text(named)
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(time_zone, "LOCALTIME", local)
    monkeypatch.setattr(time_zone, "NAMED", tmp_path / "timezone")
    assert time_zone.of_machine() == "Asia/Kathmandu"


@pytest.mark.parametrize(
    ("target", "zone"),
    [("/nowhere/zoneinfo/Asia/Tokyo", "Asia/Tokyo"), ("../zoneinfo/UTC", "UTC"),
     ("/gone/share/zoneinfo/right/Europe/Paris", "Europe/Paris"), ("/nowhere/at/all", None),
     ("localtime", None)],
)  # fmt: skip
def test_a_link_says_its_zone_even_if_it_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: str, zone: str | None
) -> None:
    local = tmp_path / "localtime"
    local.symlink_to(target)
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(time_zone, "LOCALTIME", local)
    if zone is None:
        with pytest.raises(BadInput, match="--timezone Europe/Berlin"):
            time_zone.of_machine()
    else:
        assert time_zone.of_machine() == zone


def test_a_machine_without_a_zone_is_in_utc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(time_zone, "LOCALTIME", tmp_path / "none")
    assert time_zone.of_machine() == "UTC"


@pytest.mark.parametrize("said", RULES)
def test_what_has_no_name_is_asked_for(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("TZ", said)
    with pytest.raises(BadInput, match=f"{re.escape(repr(said))}.*--timezone Europe/Berlin"):
        time_zone.of_machine()


def test_a_machines_file_that_is_in_no_database_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "localtime").write_bytes(b"TZif2" + bytes(99))
    monkeypatch.delenv("TZ", raising=False)
    monkeypatch.setattr(time_zone, "LOCALTIME", tmp_path / "localtime")
    with pytest.raises(BadInput, match="give one with --timezone"):
        time_zone.of_machine()


def test_the_command_line_asks_before_anything_is_served(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["serve", "good.yaml", "--store", str(place.store), "--cron", "0 3 * * *"]
    monkeypatch.setenv("TZ", RULES[0])
    assert "--timezone" in sentence(place.types(*words), 2)
    for wrong in ("Berlin", "", "CET-1CEST"):
        said = sentence(place.types(*words, "--timezone", wrong), 2)
        assert "is no time zone: give one by its name" in said


@pytest.mark.parametrize(
    ("zone", "offset"), [("Europe/Berlin", (1, 2)), ("Asia/Tokyo", (9,)), ("UTC", (0,))]
)
def test_the_next_firing_is_in_the_zone(zone: str, offset: tuple[int, ...]) -> None:
    found = schedules.next_time("30 3 * * *", zone)
    assert (found.hour, found.minute) == (3, 30)
    shift = found.utcoffset()
    assert shift is not None
    assert shift.total_seconds() / 3600 in offset
