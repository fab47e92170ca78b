"""What the tests of several backends share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Locks and logs of builds lie beside the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.parent / f"{tmp_path.name}-cache"))


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls are repeated as often as ever, after a tenth of the pauses: it is not the pauses that a test asks about."""
    monkeypatch.setattr("backends.remote.retry._FIRST_SEC", 0.05)
