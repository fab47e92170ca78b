"""The report in a real browser: it opens from disk, asks for nothing, obeys no hostile text, and is a pleasure to use.

Screenshots stay in the folder that CI_ARTIFACTS names, build/artifacts by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import CONTRAST, HOSTILE, PHONE, WIDE, artifacts, chromium
from recorded import change, realistic_job, write_trajectory
from runs import write_job

from harness.cli.main import main
from harness.records import TrialResult

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("reports")
    realistic_job(root / "before", tasks=60, attempts=2, seed=1, steps=6)
    realistic_job(root / "after", tasks=60, attempts=2, seed=2, skill=0.15, steps=6)
    _hostile_job(root / "hostile")
    pages = {"one": [root / "before"], "two": [root / "before", root / "after"], "hostile": [root / "hostile"]}
    for name, jobs in pages.items():
        figures = ["--figures", str(artifacts() / "figures")] if name == "two" else []
        assert main(["report", *map(str, jobs), "-o", str(root / f"{name}.html"), *figures]) == 0
    return {name: root / f"{name}.html" for name in pages}


def _hostile_job(folder: Path) -> None:
    write_job(folder, {HOSTILE: [0.0, 1.0]}, categories={HOSTILE: [HOSTILE]})
    for result in folder.glob("*/result.json"):

        def edit(record: TrialResult) -> None:
            record.agent_info.name = HOSTILE

        change(result, edit)
        turn = {"agent": HOSTILE, "reasoning": HOSTILE, "call": HOSTILE, "output": HOSTILE + "\n" + "x" * 100_000}
        write_trajectory(result.parent, [{"user": HOSTILE}, turn])


class Tab:
    """A page that was opened from disk, and everything that it complained of or asked for."""

    def __init__(self, browser: Browser, file: Path, *, phone: bool = False, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.page: Page = browser.new_page(viewport=PHONE if phone else WIDE, color_scheme=scheme)  # type: ignore[arg-type]
        self.trouble: list[str] = []
        self.page.on("console", lambda message: self.trouble.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self._asked(request.url, file))
        self.page.goto(file.as_uri())

    def _asked(self, url: str, file: Path) -> None:
        if url.partition("#")[0] != file.as_uri():
            self.trouble.append(f"request {url}")

    @property
    def shown(self) -> str:
        return self.page.inner_text("#count")


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[object]:
    tabs: list[Tab] = []

    def open_one(file: Path, **how: bool) -> Tab:
        tabs.append(Tab(browser, file, **how))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        tab.page.close()
        assert tab.trouble == []


@pytest.mark.parametrize("name", ["one", "two", "hostile"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_page_opens_from_disk_without_a_complaint_or_a_request(name, dark, reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    tab = open_tab(reports[name], dark=dark)
    assert tab.page.title().startswith("Report: ")
    tab.page.screenshot(path=artifacts() / f"report-{name}-{'dark' if dark else 'light'}.png")


@pytest.mark.parametrize("name", ["one", "two", "hostile"])
def test_nothing_sticks_out_at_390_pixels_with_every_trial_open(name, reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    page = open_tab(reports[name], phone=True).page
    page.screenshot(path=artifacts() / f"report-{name}-phone.png")
    assert page.evaluate("window.innerWidth") == PHONE["width"]
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.locator("#list > details").first.scroll_into_view_if_needed()
    page.screenshot(path=artifacts() / f"report-{name}-phone-trial.png")


def test_hostile_text_is_inert(reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    page = open_tab(reports["hostile"]).page
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("window.owned") is None
    assert page.evaluate("document.scripts.length") == 1
    assert page.locator("img, iframe, object, embed, form, base, link, [onload], [onerror]").count() == 0
    text = page.inner_text("#list")
    assert "<script>window.owned = 1; alert(1)</script>" in text
    assert r"\x1b[31m \x202eexe.txt \x00 {{ 7*7 }} {% raw %}" in text
    assert "bytes left out" in text
    page.locator("#list").screenshot(path=artifacts() / "report-hostile-trials.png")


def test_the_keyboard_alone_finds_a_trial_and_opens_it(reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    from playwright.sync_api import expect

    tab = open_tab(reports["one"])
    page, keys = tab.page, tab.page.keyboard
    keys.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    keys.press("Enter")
    assert page.evaluate("location.hash") == "#trials"
    assert tab.shown == "120 of 120 shown"
    keys.press("/")
    keys.type("coding-01 rates")
    expect(page.locator("#count")).to_have_text("2 of 120 shown")
    keys.press("Tab")
    keys.type("failed")
    expect(page.locator("#status")).to_have_value("failed")
    found = int(tab.shown.split()[0])
    assert 0 < found <= 2
    for _ in range(10):
        keys.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    keys.press("Enter")
    opened = page.locator("#list > details[open]")
    assert opened.count() == 1
    assert opened.get_attribute("data-status") == "failed"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    keys.press("/")
    keys.press("Escape")
    assert page.input_value("#find") == ""
    assert int(tab.shown.split()[0]) > found


def test_only_matching_steps_are_left_when_asked_for(reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    from playwright.sync_api import expect

    page = open_tab(reports["one"]).page
    page.fill("#find", "git diff")
    expect(page.locator("#count")).not_to_have_text("120 of 120 shown")
    page.locator("#list > details:visible > summary").first.click()
    page.check("#only")
    steps = page.locator("#list > details[open] .turn:visible")
    assert steps.count() > 0
    assert all("git diff" in text for text in steps.all_inner_texts())


def test_links_lead_from_numbers_to_trials(reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    tab = open_tab(reports["two"])
    page = tab.page
    page.locator("#failures a", has_text="agent timeout").first.click()
    shown = page.locator("#list > details:visible")
    assert 0 < shown.count() < 40
    assert all("agent timeout" in text for text in page.locator("#list > details:visible > summary").all_inner_texts())
    page.locator("#results a", has_text="Coding").first.click()
    assert tab.shown == "20 of 240 shown"
    page.locator("#tasks details > summary").first.click()
    page.locator("#tasks a").first.click()
    assert page.locator("#list > details[open]").count() == 1


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_its_ground(dark, reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    page = open_tab(reports["two"], dark=dark).page
    page.locator("#list > details > summary").first.click()
    faint = page.evaluate(CONTRAST)
    assert faint == []
    page.screenshot(path=artifacts() / f"report-trials-{'dark' if dark else 'light'}.png")
    colour = {name: page.evaluate(COLOUR, f".{name} .tag") for name in ("call", "result")}
    assert colour["call"] != colour["result"], "a call stands out from what it returned"


def test_what_is_printed_has_no_controls(reports, open_tab) -> None:  # type: ignore[no-untyped-def]
    page = open_tab(reports["one"]).page
    page.emulate_media(media="print")
    assert page.locator(".filters:visible, nav:visible, .skip:visible").count() == 0
    assert page.locator(".verdict:visible").count() == 1


COLOUR = "(selector) => getComputedStyle(document.querySelector(selector)).color"
