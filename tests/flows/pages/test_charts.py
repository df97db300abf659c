"""What stands at the axes of charts, as the page's own library writes it."""

import json
import re
from typing import Any

import vl_convert

from tercet.flows.pages import charts


def labels(spec: charts.Spec) -> list[str]:
    """All texts of the drawn chart."""
    drawn = vl_convert.vegalite_to_svg(json.dumps({**spec, "width": 150}))
    return re.findall(r"<text[^>]*>([^<]+)</text>", drawn)


def test_numbers_at_an_axis_are_written_out() -> None:
    row: dict[str, Any] = {"name": "recall", "said": "", "clear": True}
    gains = [{**row, "gain": 50.0, "low": 0.0, "high": 100.0}]
    assert "+100" in labels(charts.intervals(gains, title="gain"))
    log = [{"step": step, "loss": 1.0, "who": "run"} for step in (0, 1_000, 12_000)]
    drawn = labels(charts.lines(log, x="step", y="loss", by="who", titles=("step", "loss")))
    assert "10,000" in drawn
    assert not [label for label in drawn if "e+" in label]
