"""Any of the loopback control planes behind one handle, for what is asked of all of them alike."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

CLOUDS = ("daytona", "e2b", "modal")

_KINDS: tuple[dict[str, Any], ...] = (
    {"status": 429},
    {"status": 500},
    {"status": 502},
    {"reset": True},
    {"reset": True, "work": True},
)


@dataclass(frozen=True)
class Cloud:
    """A running plane. `env` is what its SDK needs to find it."""

    name: str
    plane: Any
    env: Mapping[str, str]

    @property
    def left(self) -> list[str]:
        """The sandboxes that live."""
        return list(self.plane.alive if self.name == "modal" else self.plane.sandboxes)

    @property
    def made(self) -> list[Mapping[str, str]]:
        """The labels of all that were ever made, those of failed attempts included."""
        if self.name == "modal":
            return [sandbox.tags for sandbox in self.plane.sandboxes.values()]
        return [body["labels" if self.name == "daytona" else "metadata"] for body in self.plane.created]

    @property
    def n_calls(self) -> int:
        """How many calls it was sent."""
        return len(self.plane.calls) if self.name == "e2b" else self.plane.calls.total()

    def delay_calls(self, seconds: float) -> None:
        """Let every call take so much longer from now on."""
        self.plane.latency = seconds

    def break_calls(self, share: float, seed: int) -> None:
        """Let this share of all calls fail from now on, in five ways that are equally likely.

        Told to slow down, two kinds of error, and a connection that breaks before or after the work was done.
        """
        if self.name == "modal":
            self.plane.faults = _ModalTrouble(share, seed)
            return
        self.plane.faults.seed(seed)
        each = share / len(_KINDS)
        for number, what in enumerate(_KINDS):
            # Only what the kinds before it let pass comes to the next one.
            self.plane.faults.add(".", times=float("inf"), share=each / (1 - each * number), **what)

    def heal(self) -> None:
        """No call fails any more."""
        self.plane.faults.clear()


class _ModalTrouble(dict[str, Any]):
    """As Modal's plane keeps its faults, by the name of the call: any call may meet one."""

    def __init__(self, share: float, seed: int) -> None:
        super().__init__()
        self._share = share
        self._random = random.Random(seed)

    def get(self, key: str, default: Any = None) -> Any:
        from controlplanes.modal import Fault
        from grpclib import Status

        if self._random.random() >= self._share:
            return default
        kinds: tuple[dict[str, Any], ...] = (
            {"status": Status.RESOURCE_EXHAUSTED},
            {"status": Status.INTERNAL},
            {"status": Status.UNAVAILABLE},
            {"reset": True},
            {"reset": True, "late": True},
        )
        return Fault(**kinds[self._random.randrange(len(kinds))])

    def clear(self) -> None:
        self._share = 0.0


@asynccontextmanager
async def cloud(name: str) -> AsyncIterator[Cloud]:
    """A running plane by its SDK's name. Only that plane is imported."""
    if name == "daytona":
        from controlplanes.daytona import daytona_plane

        async with daytona_plane(minute=60.0) as daytona:
            yield Cloud(name, daytona, daytona.env)
    elif name == "e2b":
        from controlplanes.e2b import e2b_plane

        async with e2b_plane() as e2b:
            yield Cloud(name, e2b, e2b.env)
    else:
        from controlplanes.modal import modal_plane

        async with modal_plane() as modal:
            yield Cloud(name, modal, modal.env)
