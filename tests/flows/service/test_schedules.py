"""The time zone of a schedule: found by its name, or asked for, and never UTC in silence."""

import pytest
from failures import fails
from good_and_bad import Place, sentence

from tercet.flows.service.deploy import next_time, zone_of

RULES = ["CET-1CEST,M3.5.0,M10.5.0/3", "<+0545>-5:45", "Europe/Berlni", ":Nowhere/Land",
         "/nowhere/at/all", "../../etc/passwd", "localtime", "Europe"]  # fmt: skip


@pytest.mark.parametrize("said", ["Europe/Berlin", ":Europe/Berlin", "UTC", "Etc/GMT+5"])
def test_a_name_is_a_zone(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("TZ", said)
    assert zone_of(None) == said.removeprefix(":")


@pytest.mark.parametrize("said", RULES)
def test_what_has_no_name_is_asked_for(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("TZ", said)
    with fails("missing_key", "--timezone", "Europe/Berlin"):
        zone_of(None)


def test_the_command_line_asks_before_anything_is_served(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["serve", "good.yaml", "--store", str(place.store), "--cron", "0 3 * * *"]
    monkeypatch.setenv("TZ", RULES[0])
    assert "--timezone" in sentence(place.types(*words), 2)
    for wrong in ("Berlin", "", "CET-1CEST"):
        assert "time zone" in sentence(place.types(*words, "--timezone", wrong), 2)


@pytest.mark.parametrize(
    ("zone", "offset"), [("Europe/Berlin", (1, 2)), ("Asia/Tokyo", (9,)), ("UTC", (0,))]
)
def test_the_next_firing_is_in_the_zone(zone: str, offset: tuple[int, ...]) -> None:
    found = next_time("30 3 * * *", zone)
    assert (found.hour, found.minute) == (3, 30)
    shift = found.utcoffset()
    assert shift is not None
    assert shift.total_seconds() / 3600 in offset
