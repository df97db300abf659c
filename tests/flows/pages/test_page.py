"""The page: one file, nothing from outside, no text that breaks out of its place."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import vl_convert

from tercet.flows.pages import charts
from tercet.flows.pages.blocks import Chart, Fact, Item, Items, Note, Section, Table
from tercet.flows.pages.page import cell, inlined, page, words

EVIL = "</script><script>alert(1)</script><!-- & \u2028"
SPEC = {"mark": "bar", "data": {"values": [{"a": EVIL}]}, "encoding": {}}


class Read(HTMLParser):
    """Scripts by type, addresses, texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.scripts: list[tuple[str, str]] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self._kind: str | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append(tag)
        self.addresses += [v for k, v in attributes.items() if k in ("src", "href", "action") and v]
        if tag == "script":
            self._kind = attributes.get("type") or "code"
            self.scripts.append((self._kind, ""))

    def handle_data(self, data: str) -> None:
        if self._kind is not None:
            kind, before = self.scripts[-1]
            self.scripts[-1] = (kind, before + data)

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._kind = None


def hostile() -> str:
    blocks = [
        Note(EVIL),
        Table([EVIL], [[EVIL]], EVIL),
        Chart(SPEC, EVIL, EVIL, EVIL),
        Items([Item(EVIL, EVIL, EVIL, tag=EVIL)], EVIL),
    ]
    return page(EVIL, [Section(EVIL, blocks, EVIL)], subtitle=EVIL, facts=[Fact(EVIL, EVIL, EVIL)])


def test_no_text_breaks_out() -> None:
    read = Read(hostile())
    assert [kind for kind, _ in read.scripts] == ["code", "application/json", "code", "code"]
    (spec,) = [text for kind, text in read.scripts if kind == "application/json"]
    assert json.loads(spec)["data"]["values"] == [{"a": EVIL}]
    assert json.loads(spec)["description"] == EVIL
    assert "img" not in read.tags


@pytest.mark.parametrize("control", ["\x00", "\x1b[31m", "\x07", "\x85", "\x9b"])
def test_no_control_characters_are_in_a_page(control: str) -> None:
    text = f"before{control}after"
    blocks = [Note(text), Table([text], [[text]], text), Items([Item(text, text, text)], text)]
    html = page(text, [Section(text, blocks)], facts=[Fact(text, text, text)])
    assert control[0] not in html
    assert f"before{control[1:]}after" in html


def test_nothing_is_asked_of_a_network() -> None:
    read = Read(hostile())
    assert {address.partition(":")[0] for address in read.addresses if address[0] != "#"} == {
        "data"
    }


def test_only_its_own_scripts_may_run() -> None:
    html = hostile()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy
    allowed = policy[1].replace("&#39;", "'")
    for kind, text in Read(html).scripts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert (f"'sha256-{digest}'" in allowed) == (kind == "code")
    assert "default-src 'none'" in allowed
    assert "unsafe-eval" not in allowed
    assert "http" not in allowed


def test_a_page_without_charts_does_not_carry_their_library() -> None:
    assert len(page("Plain", [Section("One", [Note("A sentence.")])])) < 60_000


def test_a_spec_with_a_number_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        inlined(Chart({"data": {"values": [{"a": float("nan")}]}}, "", ""))


def test_words_show_code_and_nothing_else() -> None:
    assert words("Set `a<b` & go") == "Set <code>a&lt;b</code> &amp; go"


def test_cells() -> None:
    values = [None, 12345, 0.12345, 12.3456, True, "x"]
    assert [cell(value) for value in values] == ["–", "12,345", "0.1235", "12.35", "yes", "x"]


def labels(spec: charts.Spec) -> list[str]:
    """All texts of the drawn chart."""
    drawn = vl_convert.vegalite_to_svg(json.dumps({**spec, "width": 150}))
    return re.findall(r"<text[^>]*>([^<]+)</text>", drawn)


def test_numbers_at_an_axis_are_written_out() -> None:
    row: dict[str, Any] = {"name": "recall", "label": "", "clear": True}
    gains = [{**row, "gain": 50.0, "low": 0.0, "high": 100.0}]
    assert "+100" in labels(charts.intervals(gains, title="gain"))
    log = [{"step": step, "loss": 1.0, "who": "run"} for step in (0, 1_000, 12_000)]
    drawn = labels(charts.lines(log, x="step", y="loss", by="who", titles=("step", "loss")))
    assert "10,000" in drawn
    assert not [label for label in drawn if "e+" in label]
