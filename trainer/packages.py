"""What a command of the trainer needs that is not installed everywhere: one line that says how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from harness.errors import UsageError

_TORCH = " (without a GPU, first: pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu)"


def require_packages(who: str, extras: str, *names: str) -> None:
    """Raise UsageError where what `who` needs is not installed."""
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        first = _TORCH if "torch" in missing else ""
        raise UsageError(f"{who} needs {', '.join(missing)}: pip install 'harness-rl[{extras}]'{first}")
