"""The page in Chromium, with a policy that lets nothing out: drawn, clicked, read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_store import EVIL, Written

from tercet.flows.commands.browse import make_report

WAIT = 600_000
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser(chromium: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium with a folder of its own; TERCET_CHROMIUM names another one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"),
            executable_path=chromium,
            args=list(ARGUMENTS),
            headless=True,
            timeout=WAIT,
        )
        context.set_default_timeout(WAIT)
        yield context
        context.close()


class Opened:
    """A page that is drawn, with all that it asked for and complained of."""

    def __init__(self, browser: Any, path: Path) -> None:
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_page()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)
        self.page.set_viewport_size({"width": 1280, "height": 800})
        self.page.emulate_media(color_scheme="light")
        self.page.goto(path.as_uri(), timeout=WAIT)
        self.page.wait_for_selector("html[data-charts=done]", state="attached")

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def colours(self) -> tuple[str, str]:
        """Of the page, and of a chart's label."""
        script = """() => {
            const label = document.querySelector('.chart .role-axis-label text');
            return [getComputedStyle(document.body).backgroundColor, getComputedStyle(label).fill];
        }"""
        page, label = self.page.evaluate(script)
        return page, label


@pytest.fixture(scope="module")
def path(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "report.html"
    make_report([written.whole], str(target), str(written.store))
    return target


@pytest.fixture(scope="module")
def wide(browser: Any, path: Path) -> Iterator[Opened]:
    opened = Opened(browser, path)
    yield opened
    opened.page.close()


def test_no_request_leaves_and_nothing_complains(wide: Opened, path: Path) -> None:
    assert {url for url in wide.asked if not url.startswith(("data:", "blob:"))} == {path.as_uri()}
    assert wide.complaints == []
    assert "taken" not in wide.page.title()


def test_every_chart_is_drawn(wide: Opened) -> None:
    script = """() => [...document.querySelectorAll('.chart')].map((chart) => [
        chart.dataset.state, chart.querySelectorAll('svg path, svg text').length,
        chart.querySelector('svg').getBoundingClientRect().width,
        chart.getAttribute('aria-label') || '',
    ])"""
    charts = wide.page.evaluate(script)
    assert len(charts) >= 12
    assert {state for state, *_ in charts} == {"drawn"}
    assert min(marks for _, marks, *_ in charts) > 5
    assert min(width for *_, width, _ in charts) > 150
    assert all(label for *_, label in charts)


def test_a_method_is_chosen_by_click_and_by_key(wide: Opened) -> None:
    page = wide.page
    panel = page.locator("[role=tabpanel]:visible")
    page.get_by_role("tab", name="entity_swap").click()
    assert panel.count() == 1
    assert "Too close to the anchor for a negative" in panel.inner_text()
    assert EVIL in panel.inner_text()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.textContent.trim()") == "next_sentences"
    assert "Too far from the anchor for a positive" in panel.inner_text()


def test_the_switch_turns_page_and_charts(wide: Opened) -> None:
    switch = wide.page.get_by_role("button", name="Dark colours")
    light = wide.colours()
    switch.click()
    dark = wide.colours()
    assert switch.get_attribute("aria-pressed") == "true"
    assert all(one != other for one, other in zip(light, dark, strict=True))
    wide.page.emulate_media(media="print")
    assert wide.colours()[0] == "rgb(255, 255, 255)"
    assert wide.page.locator("[role=tabpanel]:visible").count() == 2
    wide.page.emulate_media(media="screen")
    switch.click()
    assert wide.colours() == light
    wide.page.evaluate("localStorage.clear()")


def test_two_runs_are_drawn_over_each_other(browser: Any, written: Written, tmp_path: Path) -> None:
    target = tmp_path / "two.html"
    make_report([written.whole, written.seeds], str(target), str(written.store))
    opened = Opened(browser, target)
    states = opened.page.evaluate(
        "[...document.querySelectorAll('.chart')].map((chart) => chart.dataset.state)"
    )
    assert set(states) == {"drawn"}
    assert opened.complaints == []
    opened.page.close()
