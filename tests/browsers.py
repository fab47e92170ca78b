"""A real browser for tests of pages, what it looks at them with, and text that no page may obey."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from command_line import REPO

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDE, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
HOSTILE = (
    "<script>window.owned = 1; alert(1)</script><img src=x onerror='window.owned = 2'><svg onload='window.owned = 3'>"
    "</pre></details></script></style><iframe src=//example.com></iframe>\x1b]0;title\x07\x1b[31m \u202eexe.txt "
    "\x00 {{ 7*7 }} {% raw %} javascript:alert(1)"
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Headless; a test is skipped where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium on this machine")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)
    with sync_playwright() as playwright:
        # The pages are of our own making; as root there is no sandbox to be had.
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


def artifacts() -> Path:
    """Where screenshots stay: the folder that CI_ARTIFACTS names, build/artifacts by default."""
    folder = Path(os.environ.get("CI_ARTIFACTS") or REPO / "build" / "artifacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


CONTRAST = """() => {
  const numbers = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = (colour) => {
    const linear = (c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = numbers(colour).map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = getComputedStyle(each).backgroundColor;
      if (numbers(colour)[3] !== 0) return colour;
    }
    return getComputedStyle(document.body).backgroundColor;
  };
  const faint = new Set();
  for (const element of document.body.querySelectorAll("*")) {
    if (element.closest("details:not([open])") && !element.closest("summary")) continue;
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || ["SCRIPT", "OPTION"].includes(element.tagName) || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [a, b] = [light(element.tagName === "text" ? style.fill : style.color), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.add(`${element.tagName}.${element.getAttribute("class")} ${ratio.toFixed(2)}`);
  }
  return [...faint];
}"""
"""Texts whose contrast with their ground is below 4.5."""
