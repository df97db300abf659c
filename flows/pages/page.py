"""One self-contained HTML file from plain blocks, which opens without a network connection.

    page("Title", [Section("Results", [Table(("β", "gain"), rows), Chart(spec, "What to see.", "Alt
    text.")])], subtitle="…") -> str

`tercet.flows.pages.blocks` has the blocks of a section, `tercet.flows.pages.charts` makes specs
(any Vega-Lite 6 spec with inline data will do; leave out colours and fonts, which the page sets for
light, dark and print).
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from tercet.flows.pages.blocks import Block, Chart, Fact, Fold, Grid, Note, Section, Tabs

VEGA_LITE = "6.4"
_HERE = Path(__file__).parent
# HTML may not hold control characters. Tercet's scripts have none, so removing them leaves the
# scripts' digests right.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_CODE = re.compile(r"`([^`]+)`")


def page(
    title: str,
    sections: Sequence[Section],
    *,
    subtitle: str = "",
    facts: Sequence[Fact] = (),
    notices: Sequence[Note] = (),
    footer: str = "",
) -> str:
    """The page as text.

    subtitle: a line below the title. facts: the headline figures, at the top. notices: warnings to
    read first, for instance that a run failed. footer: where the page comes from.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"words": words, "cell": cell, "spec": inlined}
    scripts = [_read("theme.js"), _read("page.js")]
    if any(True for section in sections for _ in _charts(section.blocks)):
        scripts.insert(1, bundle())
    html = environment.get_template("page.html.jinja").render(
        title=title,
        subtitle=subtitle,
        facts=facts,
        notices=notices,
        footer=footer,
        sections=[(section.anchor or _anchor(section.title), section) for section in sections],
        css=Markup(_read("page.css")),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts),
    )
    return _CONTROL.sub("", html)


@cache
def bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script (0.9 MB), which needs no `eval`."""
    import vl_convert

    script: str = vl_convert.javascript_bundle(
        "window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE
    )
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def words(text: str) -> Markup:
    """A text of Tercet's, escaped; words in `backticks` become code."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))


def cell(value: Any) -> str:
    """A table's cell."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1 else f"{value:,.2f}"
    return str(value)


def inlined(chart: Chart) -> Markup:
    """A chart's spec as JSON, safe inside a script element."""
    spec: Mapping[str, Any] = {**chart.spec, "description": chart.alt}
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _charts(blocks: Sequence[Block]) -> Iterator[Chart]:
    for block in blocks:
        if isinstance(block, Chart):
            yield block
        elif isinstance(block, Grid | Fold):
            yield from _charts(block.blocks)
        elif isinstance(block, Tabs):
            for panel in block.panels:
                yield from _charts(panel.blocks)


def _policy(scripts: Sequence[str]) -> str:
    """Allows only these scripts and no fetching. Vega sets inline styles."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


@cache
def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
