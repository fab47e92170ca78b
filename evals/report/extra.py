"""What reports need beyond the harness itself."""

from __future__ import annotations

from harness.errors import UsageError


def require_extra() -> None:
    """Raises UsageError, with the line that helps, where jinja2 or matplotlib is not installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise UsageError("reports need jinja2 and matplotlib: pip install 'harness-rl[report]'") from error
