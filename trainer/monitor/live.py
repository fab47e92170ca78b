"""What the monitor says, for a terminal: how the invariants stand, and what has just changed."""

from __future__ import annotations

from rich.text import Text

from trainer.monitor.monitor import Event, Observation

_STYLES = {"unknown": "dim", "ok": "green", "warn": "yellow", "alarm": "bold red"}


def standing(seen: Observation) -> Text:
    """All invariants in one line, as in "exploration ok, signal warn, drift ok"."""
    line = Text()
    for name, reading in seen.readings.items():
        line.append(", " if line else "")
        line.append(f"{name} ")
        line.append(str(reading.level), style=_STYLES[str(reading.level)])
    return line


def told(event: Event) -> Text:
    """One event in one line, with the setting to change where there is one."""
    words = event.name.replace("_", " ")
    if event.kind == "invariant":
        line = Text(f"{words}: ")
        line.append(event.level, style=_STYLES[event.level])
    elif event.level == "over":
        line = Text(f"{words}: no longer", style="dim")
    elif event.kind == "remedy":
        line = Text(f"applied {event.change}", style="bold")
    else:
        line = Text(f"suspected: {words}", style="bold")
    if event.evidence and event.kind != "remedy":
        line.append(f": {event.evidence}")
    if event.kind == "finding" and event.change is not None:
        line.append(f" (try --set {event.change}, or --auto-remedy)")
    if event.kind == "remedy":
        line.append(f": {event.says}")
    return line


def worth_telling(event: Event) -> bool:
    """Whether a line is due: that an invariant becomes known, and is well, needs none."""
    return event.kind != "invariant" or event.before in ("warn", "alarm") or event.level in ("warn", "alarm")
