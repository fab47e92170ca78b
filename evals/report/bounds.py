"""How large a report may become. What is left out is counted, and said where it would have stood."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The size of a page.

    Attributes:
        total: bytes of all that is shown of single attempts. Attempts that did not pass come first, and the later
            before the earlier; from the first that does not fit, attempts keep their line, which is a few hundred
            bytes, and lose the rest.
        steps: per trajectory; the middle is left out.
        text: bytes per message, result or log; the middle is left out.
        call: bytes per argument list of a tool call.
        file: bytes of a trajectory's file; a larger one is not read.
        nested: how deep the trajectories of subagents are followed.
    """

    total: int = 24 << 20
    steps: int = 200
    text: int = 6000
    call: int = 4000
    file: int = 128 << 20
    nested: int = 3
