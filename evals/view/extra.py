"""What the viewer needs beyond the harness itself."""

from __future__ import annotations

from importlib.util import find_spec

from harness.errors import UsageError

_PACKAGES = ("jinja2", "matplotlib", "sqlalchemy", "starlette", "uvicorn")


def require_extra() -> None:
    """Raises UsageError, with the line that helps, where a package is missing."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(f"harness view needs {', '.join(missing)}: pip install 'harness-rl[view]'")
