"""How often what is random is repeated: HARNESS_TEST_THOROUGH=1 asks for as often as was promised, CI for less."""

from __future__ import annotations

import os


def times(often: int, promised: int) -> int:
    """`promised` where this is asked for, else `often`."""
    return promised if os.environ.get("HARNESS_TEST_THOROUGH") == "1" else often
