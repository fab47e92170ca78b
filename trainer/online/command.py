"""Collect, train, serve and collect again: a policy that learns from its own attempts."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainer.packages import require_packages
from trainer.settings import tables_of

if TYPE_CHECKING:
    from trainer.online.config import LoopConfig
    from trainer.online.display import LoopDisplay
    from trainer.online.loop import Ended


def loop(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="What to do; see examples/loop.toml.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The loop's folder. Default: loops/ and the config's name.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: key=value, collect.async_ratio=1; repeat.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Replaces the config's.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Replaces the config's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the loop in the folder.")] = False,
) -> int:
    """Collect attempts, train on them, serve the new policy, and collect again.

    Ctrl-C ends the loop cleanly; so killed or ended, --resume goes on with it. Every attempt stays in the folder as a
    job: harness show, summary and export read it. Exit codes: 0 all steps done, 1 halted, 2 the request cannot be,
    130 interrupted.
    """
    require_packages("the loop", "train,proxy", "torch", "transformers", "safetensors", "uvicorn", "httptools")
    from trainer.online.config import read_loop
    from trainer.online.display import LoopDisplay

    asked = {name: value for name, value in (("steps", steps), ("seed", seed)) if value is not None}
    request = read_loop(config, {**tables_of({}, settings or []), **asked})
    target = out or Path("loops") / config.stem
    display = LoopDisplay(request.training)
    ended = asyncio.run(_interruptible(request, target, resume, display))
    display.ended(ended)
    if ended.halted is not None:
        typer.echo(f"halted after {ended.step} steps: {ended.halted}", err=True)
        return 1
    typer.echo(f"model:    {target / 'model'}")
    typer.echo(f"attempts: {target / 'jobs' / 'rollouts'}")
    return 0


async def _interruptible(request: LoopConfig, target: Path, resume: bool, display: LoopDisplay) -> Ended:
    from trainer.online.loop import Watching, run_loop

    running, events = asyncio.current_task(), asyncio.get_running_loop()
    assert running is not None

    def interrupted() -> None:
        typer.echo("ending: trials are stopped and recorded; go on with --resume", err=True)
        running.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        events.add_signal_handler(number, interrupted)
    try:
        watching = Watching(step=display.step, evaluation=display.evaluation)
        return await run_loop(request, target, resume=resume, watching=watching)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            events.remove_signal_handler(number)
