"""The page of a run: complete, inert, the same bytes for the same run, and one clear line for what is no run."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from harness.errors import UsageError
from trainer.cli import app
from trainer.report.curves import chart, nice_ticks, thinned
from trainer.report.page import write_page
from trainer.report.run import open_run

HOSTILE = "<script>alert(1)</script>\u202e"


def run_folder(folder: Path, *, steps: int = 30, name: str = "m", tail: str = "") -> Path:
    """A run with a little of everything."""
    folder.mkdir()
    numbers: list[dict[str, Any]] = [
        {
            "step": step,
            "reward_mean": step / 30,
            "entropy": None if step < 3 else 1 / step,
            "positive_rollouts": step,
            "negative_rollouts": 30 - step,
            "loss_policy": -0.1,
            "filtered_stale": step % 2,
            "filtered_zero_variance": 3,
        }
        for step in range(1, steps + 1)
    ]
    events: list[dict[str, Any]] = [
        {"step": 5, "kind": "invariant", "name": "exploration", "level": "ok", "evidence": ""},
        {"step": 20, "kind": "invariant", "name": "exploration", "level": "alarm", "evidence": "entropy 0.05"},
        {"step": 21, "kind": "remedy", "name": "extreme_failures", "level": "applied", "evidence": HOSTILE}
        | {"change": "filters.mask_failed_longer_than=20000", "says": "mask them"},
    ]
    request = {"export": "data", "model": name, "config": {"algo": "cispo", "optimizer": {"lr": 1e-6}, "kl": None}}
    (folder / "run.json").write_text(json.dumps(request))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in numbers) + tail)
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events))
    return folder


def page_of(folder: Path) -> str:
    write_page(open_run(folder), folder / "report.html")
    return (folder / "report.html").read_text(encoding="utf-8")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_a_page_shows_curves_invariants_remedies_filters_and_settings(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "run"))
    assert "Mean reward 0.067 → 0.967 over 30 steps" in page
    assert "11 steps in alarm" in page and 'class="level alarm"' in page
    assert "filters.mask_failed_longer_than=20000" in page
    assert re.search(r"zero_variance</th><td[^>]*>90</td>", page) and re.search(r"stale</th><td[^>]*>15</td>", page)
    assert "optimizer.lr" in page and "not set" in page and "loss_policy" in page
    assert page.count('class="mark"') == page.count("<figure>") and page_of(tmp_path / "run") == page


def test_nothing_in_a_page_runs_or_is_fetched(tmp_path: Path) -> None:
    page = page_of(run_folder(tmp_path / "run", name=HOSTILE))
    parser = _Tags()
    parser.feed(page)
    names = {tag for tag, _ in parser.tags}
    assert not names & {"script", "link", "img", "iframe", "object"}
    for _, attributes in parser.tags:
        assert not any(name.startswith("on") or name in ("style", "src") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    assert "default-src 'none'; style-src 'sha256-" in unescape(page) and "\u202e" not in page


def test_a_run_that_goes_on_has_a_torn_last_line(tmp_path: Path) -> None:
    assert "1 line of the log could not be read" in page_of(run_folder(tmp_path / "run", tail='{"step": 31, "rew'))


def test_one_step_is_a_page_already(tmp_path: Path) -> None:
    assert "over 1 step<" in page_of(run_folder(tmp_path / "run", steps=1))


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no run of training"):
        open_run(tmp_path)
    folder = run_folder(tmp_path / "run", steps=0)
    with pytest.raises(UsageError, match="has no step yet"):
        open_run(folder)
    with pytest.raises(UsageError, match="name another file"):
        write_page(open_run(run_folder(tmp_path / "other")), tmp_path / "nowhere" / "x.html")


def test_the_command_writes_where_it_is_told(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    done = CliRunner().invoke(app, ["report", str(folder), "-o", str(tmp_path / "page.html")])
    assert done.exit_code == 0 and "page.html: 30 steps" in done.output.replace("\n", "")
    assert (tmp_path / "page.html").is_file()


def test_training_is_what_happens_without_a_commands_name() -> None:
    helped = CliRunner().invoke(app, ["--help"])
    assert helped.exit_code == 0 and "--model" in helped.output and "harness train report" in helped.output


@given(st.floats(-1e9, 1e9), st.one_of(st.just(0.0), st.floats(1e-12, 1e9)))
def test_ticks_are_few_and_span_the_values(low: float, span: float) -> None:
    ticks = list(nice_ticks(low, low + span))
    assert 2 <= len(ticks) <= 7
    assert (ticks[0] <= low and ticks[-1] >= low + span) or span < 1e-9 * abs(low)


def test_a_long_curve_keeps_its_spikes() -> None:
    points = [(float(step), 100.0 if step == 7777 else 0.0) for step in range(20_000)]
    found = thinned(points)
    assert len(found) <= 480 and (7777.0, 100.0) in found
    assert ET.fromstring(chart([("x", points)], 20_000, 'a "title" & more')).tag == "svg"
