"""Values as a person reads them in a terminal. Text from tasks and agents is hostile: it is shown, never obeyed."""

from __future__ import annotations


def plain(text: str) -> str:
    """Text from outside, on one line, with control characters made visible."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def percent(value: float | None) -> str:
    """A share as a percentage; "n/a" where it is unknown."""
    return "n/a" if value is None else f"{100 * value:.1f}%"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them."""
    if seconds is None:
        return "n/a"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
