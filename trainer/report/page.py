"""The page: one file that opens from disk, asks for nothing and runs nothing. The same run gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.errors import UsageError
from harness.store.files import write_atomic
from trainer.monitor.metrics import COST, DRIFT, EXPLORATION, FILTERS, LEARNING, LENGTHS, METRICS, SIGNAL, metric_of
from trainer.report.curves import band, chart
from trainer.report.run import Run

_HERE = Path(__file__).parent
_INVARIANTS = ("exploration", "signal", "drift")
_TITLES = {
    LEARNING: "Learning",
    EXPLORATION: "Exploration",
    SIGNAL: "Signal",
    DRIFT: "Drift",
    LENGTHS: "Lengths",
    COST: "Cost",
}
_TOGETHER = (
    ("positive_rollouts", "negative_rollouts"),
    ("positive_token_share", "negative_token_share"),
    ("length_positive_p50", "length_negative_p50"),
    ("length_positive_p99", "length_negative_p99"),
    ("length_positive_max", "length_negative_max"),
    ("ratio_p01", "ratio_p99"),
    ("ratio_min", "ratio_max"),
    ("distinct_1", "distinct_2"),
    ("pass_1", "pass_any"),
)
"""Numbers that are read against each other."""


def write_page(run: Run, file: Path) -> None:
    """Write the report of a run. Raises UsageError where it cannot be written, or jinja2 is missing."""
    page, _ = page_of(run)
    try:
        write_atomic(file, page)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}; name another file with -o") from error


def page_of(run: Run, home: str = "") -> tuple[str, str]:
    """The report of a run, and the policy under which it works; with a link to `home`, where there is one.

    Raises UsageError where jinja2 is missing.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise UsageError("reports need jinja2: pip install 'harness-rl[report]'") from error
    templates = Environment(loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined)
    templates.filters["plain"] = _plain
    style = Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - ours
    policy = _policy(style)
    page = templates.get_template("page.html.j2").render(
        style=style,
        policy=policy,
        home=home,
        run=run,
        verdict=_verdict(run),
        bands=_bands(run),
        families=_families(run),
        told=[event for event in run.events if event["kind"] != "invariant" or event["level"] in ("warn", "alarm")],
        filters=_filters(run),
        settings=list(_settings(run.request.get("config") or {})),
        legend=[metric for metric in METRICS if metric.family != FILTERS],
    )
    return page, policy


def _plain(value: object) -> str:
    """Text from outside with what cannot be seen made visible; the template escapes it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in str(value))


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _verdict(run: Run) -> str:
    rewards = [value for _, value in run.curve("reward_mean")]
    tenth = max(1, len(rewards) // 10)
    steps = f"{len(run.steps):,} step{'' if len(run.steps) == 1 else 's'}"
    if not rewards:
        return f"{steps}, and no valid reward"
    first, last = sum(rewards[:tenth]) / tenth, sum(rewards[-tenth:]) / tenth
    return f"Mean reward {first:.3f} → {last:.3f} over {steps}"


def _bands(run: Run) -> list[dict[str, Any]]:
    found = []
    for name in _INVARIANTS:
        changes = [(float(event["step"]), str(event["level"])) for event in run.events if event["name"] == name]
        changes = [(1.0, "unknown"), *changes]
        ends = [step for step, _ in changes[1:]] + [run.last + 1.0]
        spans = [(begin, end, level) for (begin, level), end in zip(changes, ends, strict=True) if end > begin]
        alarms = sum(end - begin for begin, end, level in spans if level == "alarm")
        words = f"{name}: now {changes[-1][1]}" + (f", {alarms:.0f} steps in alarm" if alarms else "")
        evidence = next((each.get("evidence") for each in reversed(run.events) if each["name"] == name), "")
        found.append(
            {
                "name": name,
                "now": changes[-1][1],
                "alarms": int(alarms),
                "evidence": evidence or "",
                "svg": band(spans, run.last, words),
            }
        )
    return found


def _families(run: Run) -> list[tuple[str, str, list[dict[str, Any]]]]:
    marks = [float(event["step"]) for event in run.events if event["kind"] == "remedy"]
    second = {pair[1]: pair[0] for pair in _TOGETHER}
    partner = dict(_TOGETHER)
    found = []
    for family, title in _TITLES.items():
        names = [name for metric in METRICS if metric.family == family for name in _names(run, metric.name)]
        figures = []
        for name in names:
            if name in ("step", "epoch") or second.get(name) in names:
                continue
            both = [each for each in (name, partner.get(name)) if each is not None]
            series = [(each, points) for each in both if (points := run.curve(each))]
            if series:
                figures.append(_figure(series, run.last, marks))
        if figures:
            found.append((family, title, figures))
    return found


def _names(run: Run, name: str) -> list[str]:
    return run.family(name) if name.endswith("_") else [name]


def _figure(series: list[tuple[str, list[tuple[float, float]]]], last: int, marks: list[float]) -> dict[str, Any]:
    metric = metric_of(series[0][0])
    values = [f"{name} {points[-1][1]:.4g}" for name, points in series]
    return {
        "names": [name for name, _ in series],
        "unit": metric.unit if metric else "",
        "says": metric.says if metric else "",
        "now": [points[-1][1] for _, points in series],
        "svg": chart(series, last, f"Over {last} steps; last: {', '.join(values)}", marks),
    }


def _filters(run: Run) -> list[tuple[str, int, int]]:
    """Each filter's name, what it took in all, and in how many steps."""
    found = []
    for name in run.family("filtered_"):
        values = [value for _, value in run.curve(name) if value]
        found.append((name.removeprefix("filtered_"), int(sum(values)), len(values)))
    return sorted((each for each in found if each[1]), key=lambda each: (-each[1], each[0]))


def _settings(value: Any, prefix: str = "") -> Any:
    for name, each in value.items():
        if isinstance(each, dict) and each:
            yield from _settings(each, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", "not set" if each is None else each
