"""The viewer in a real browser: every page by clicks alone, hostile text inert, keys, a phone, and what grows.

Screenshots stay in the folder that CI_ARTIFACTS names, build/artifacts by default.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browsers import CONTRAST, HOSTILE, PHONE, WIDE, artifacts, chromium
from recorded import realistic_job
from viewers import Viewer, folder_of_jobs, viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

BAD = '"><img src=x onerror=alert(1)>'
Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    jobs = folder_of_jobs(tmp_path_factory.mktemp("shown"), HOSTILE)
    with viewer(jobs, tmp_path_factory.mktemp("scratch")) as found:
        found.indexed()
        yield found


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Opens what a viewer printed, in a browser that never was there; no page may complain, or ask anybody else."""
    trouble: list[str] = []
    contexts = []

    def open_one(found: Viewer, *, phone: bool = False, dark: bool = False) -> Page:
        scheme = "dark" if dark else "light"
        context = browser.new_context(viewport=PHONE if phone else WIDE, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        ours = f"http://{found.host}:{found.port}/"
        page.on("console", lambda message: trouble.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: (trouble.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda asked: None if asked.url.startswith(ours) else trouble.append(asked.url))
        page.goto(found.url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert trouble == []


def keep(page: Page, name: str) -> None:
    page.screenshot(path=artifacts() / f"view-{name}.png")


def test_every_page_is_reached_by_clicks(shown: Viewer, open_page: Open) -> None:
    page = open_page(shown)
    assert "token" not in page.url
    keep(page, "jobs")
    page.get_by_role("link", name="before", exact=True).click()
    page.wait_for_selector("body[data-filled]")
    assert page.locator("svg.figure").count() == 2
    keep(page, "job")
    page.locator("#results a", has_text="Coding").click()
    assert page.input_value("#find") == 'job="before" category="coding"'
    assert page.locator("tbody tr").count() == 4
    keep(page, "trials")
    page.locator("tbody th a").first.click()
    assert page.locator(".turn").count() > 2
    keep(page, "trial")
    page.locator(".turn", has_text="Whole step").nth(1).get_by_text("Whole step").click()
    assert page.locator(".turn").count() == 1
    page.go_back()
    page.get_by_role("link", name="Files").click()
    page.get_by_role("link", name="result.json").click()
    assert '"task_name"' in page.inner_text("pre")
    with page.expect_download() as kept:
        page.get_by_role("link", name="Download").click()
    assert kept.value.suggested_filename == "result.json"
    page.get_by_role("link", name="before", exact=True).click()
    page.get_by_role("link", name="Behaviour, cost and time").click()
    assert page.locator("#behaviour tbody tr").count() > 1 and page.locator("#spending").count() == 1
    page.get_by_role("link", name="harness view").click()
    page.get_by_label("A is before").check()
    page.get_by_label("B is after").check()
    page.get_by_role("button", name="Compare A and B").click()
    page.wait_for_selector("body[data-filled]")
    keep(page, "compare")
    page.get_by_role("link", name="harness view").click()
    page.get_by_role("link", name="run-1").click()
    assert "Mean reward 0.083 → 1.000" in page.inner_text("header")
    keep(page, "training")
    page.get_by_role("link", name="All jobs and runs").click()
    assert page.locator("[data-row]").count() == 5


def test_tokens_are_shaded_by_surprise_and_tell_the_loss_mask(shown: Viewer, open_page: Open) -> None:
    page = open_page(shown)
    page.get_by_role("link", name="tokens", exact=True).click()
    page.locator("#tasks tbody a").click()
    page.locator("tbody th a").click()
    page.get_by_role("link", name="Tokens and loss mask").click()
    strip = page.locator(".strip .t")
    assert strip.all_inner_texts() == ["1", "2", "7", "8", "3", "9"]
    ground = [each.evaluate("(e) => getComputedStyle(e).backgroundColor") for each in strip.all()]
    line = [each.evaluate("(e) => getComputedStyle(e).borderBottomColor") for each in strip.all()]
    assert ground[3] != ground[2], "8 was very surprising, and 7 was not"
    assert line[2] == line[3] == line[5] != line[0] == line[1] == line[4]
    keep(page, "tokens")
    page.get_by_role("link", name="t0000__1").click()
    page.get_by_role("link", name="helper-1").click()
    assert "Sub-agent helper-1" in page.inner_text("#trajectory")


@pytest.mark.case("H6")
def test_hostile_text_and_names_are_inert(shown: Viewer, open_page: Open) -> None:
    page = open_page(shown)
    page.get_by_role("link", name=BAD).click()
    page.wait_for_selector("body[data-filled]")
    page.get_by_role("link", name="Trials").last.click()
    for name in ("job", "trial"):
        assert page.locator("img, iframe, object, embed, base, [onload], [onerror], [style]").count() == 0, name
        assert page.evaluate("[document.scripts.length, window.owned]") == [1, None]
        if name == "job":
            page.locator("tbody th a").first.click()
    text = page.inner_text("#trajectory")
    assert "<script>window.owned = 1; alert(1)</script>" in text
    assert r"\x1b[31m \x202eexe.txt \x00 {{ 7*7 }} {% raw %}" in text and "bytes left out" in text
    keep(page, "hostile")
    page.get_by_role("link", name="Files").click()
    page.get_by_role("link", name="page.html").click()
    assert "<script>alert(1)</script>" in page.inner_text("pre", timeout=5000)
    assert page.evaluate("window.owned") is None


def test_the_keyboard_alone_finds_a_trial_and_goes_through_its_steps(shown: Viewer, open_page: Open) -> None:
    page = open_page(shown)
    keys = page.keyboard
    focused = "document.activeElement.textContent.trim()"
    keys.press("j")
    first = page.evaluate(focused)
    keys.press("j")
    assert page.evaluate(focused) != first
    keys.press("k")
    assert page.evaluate(focused) == first
    keys.press("/")
    page.wait_for_url("**/trials")
    keys.press("/")
    keys.type("job=before outcome=scored")
    keys.press("Enter")
    page.wait_for_url("**q=job*")
    keys.press("j")
    keys.press("j")
    task = page.evaluate(focused)
    keys.press("Enter")
    page.wait_for_url("**/trial/before/*")
    assert task in page.inner_text("h1")
    keys.press("j")
    keys.press("j")
    assert page.evaluate("document.activeElement.id") != ""
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    keys.press("Enter")
    page.wait_for_url("**step=*")
    keys.press("u")
    page.wait_for_url("**/trials?*")
    keys.press("u")
    page.wait_for_url(f"http://{shown.host}:{shown.port}/")
    keys.press("?")
    assert page.locator("dialog[open]").count() == 1
    keys.press("Escape")
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_sticks_out_at_390_pixels_and_every_text_stands_out(dark: bool, shown: Viewer, open_page: Open) -> None:
    page = open_page(shown, phone=True, dark=dark)
    addresses = ["/", "/job/before", "/trials", "/trial/tokens/t0000__1", "/tokens/tokens/t0000__1", "/training/run-1"]
    more = [] if dark else ["/files/tokens/t0000__1", "/compare?a=before&b=after"]
    for number, address in enumerate([*addresses, *more]):
        page.goto(f"http://{shown.host}:{shown.port}{address}")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
        if number < 5:
            assert page.evaluate(CONTRAST) == [], address
            keep(page, f"phone-{number}-{'dark' if dark else 'light'}")


def test_a_job_that_grows_is_followed_without_a_reload(browser: Browser, open_page: Open, tmp_path: Path) -> None:
    from playwright.sync_api import expect

    whole, jobs = tmp_path / "whole", tmp_path / "jobs"
    realistic_job(whole, tasks=3, attempts=1, seed=1, steps=2)
    (jobs / "live").mkdir(parents=True)
    shutil.copy(whole / "result.json", jobs / "live")
    trials = sorted(path.parent for path in whole.glob("*/result.json"))
    with viewer(jobs / "live", tmp_path) as found:
        page = open_page(found)
        page.evaluate("window.same = true")
        for number, trial in enumerate(trials, 1):
            shutil.copytree(trial, jobs / "live" / trial.name)
            if number != 2:
                expect(page.locator("#done")).to_have_text(str(number))
        expect(page.locator(".verdict")).to_contain_text("of 3 attempts")
        assert page.evaluate("window.same") is True
        keep(page, "live")
        page.context.close()
        assert found.end()[0] == 0
