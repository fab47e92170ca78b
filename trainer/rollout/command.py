"""Serve a policy in OpenAI's dialects, every token recorded, its weights exchanged while it works."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.errors import UsageError
from harness.loopback import LOOPBACK, begin, listen, told_to_end
from trainer.packages import require_packages

if TYPE_CHECKING:
    from trainer.rollout.engine import Engine
    from trainer.rollout.server import App

KEY_VARIABLE = "HARNESS_SERVE_KEY"
_SMALL = 10_000_000
"""Below so many parameters a second thread costs more than it brings."""


def serve(
    model: Annotated[
        str, typer.Argument(help="A folder (or a name) that transformers loads, or tiny for a fresh small one.")
    ],
    host: Annotated[str, typer.Option(help="A loopback address.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free one.", min=0, max=65535)] = 8000,
    name: Annotated[str | None, typer.Option(help="The model's name in requests. Default: MODEL's last part.")] = None,
    policy_version: Annotated[str, typer.Option(help="What the first weights are called in answers.")] = "0",
    on_update: Annotated[
        Literal["finish", "continue"],
        typer.Option(help="When new weights come, answers under way finish on the old ones or continue on the new."),
    ] = "finish",
    logprobs_mode: Annotated[
        Literal["raw", "processed"], typer.Option(help="Log-probabilities before temperature, as vLLM's, or after it.")
    ] = "raw",
    max_running: Annotated[int, typer.Option(min=1, help="Answers that share a forward pass.")] = 64,
    max_waiting: Annotated[int, typer.Option(min=0, help="Further requests that may wait; more get a 429.")] = 1024,
    prefix_cache: Annotated[int, typer.Option(metavar="MIB", min=0, help="Memory for earlier turns.")] = 512,
    max_len: Annotated[
        int | None, typer.Option(min=2, help="Tokens of prompt and answer. Default: the model's.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one answer, waiting included.")] = 600.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Of torch. Default: 1 for small models.")] = None,
    seed: Annotated[int, typer.Option(help="Of fresh weights.")] = 0,
) -> int:
    """Serve a policy in OpenAI's dialects until Ctrl-C or SIGTERM.

    New weights come by POST /v1/weights, with the key that HARNESS_SERVE_KEY holds; without one they stay.
    """
    if host not in LOOPBACK:
        raise UsageError(f"--host {host}: the policy is served on loopback only, e.g. 127.0.0.1")
    require_packages("serving", "train,proxy", "torch", "transformers", "safetensors", "uvicorn", "httptools")
    import torch

    from trainer.policy.config import PolicyConfig
    from trainer.policy.load import load_policy
    from trainer.rollout.engine import Engine, Settings
    from trainer.rollout.model import ServedModel
    from trainer.rollout.server import App

    listener = listen("127.0.0.1" if host == "localhost" else host, port, who="the policy server")
    try:
        policy = load_policy(model, PolicyConfig(), seed=seed)
        policy.model.eval()
        size = sum(each.numel() for each in policy.model.parameters())
        threads = threads or (1 if size < _SMALL else None)
        if threads is not None:
            torch.set_num_threads(threads)
        served = ServedModel(name or Path(model).name, policy, window=max_len)
        settings = Settings(
            max_running=max_running,
            max_waiting=max_waiting,
            prefix_bytes=prefix_cache << 20,
            on_update=on_update,
            logprobs_mode=logprobs_mode,
            threads=threads,
        )
        key = os.environ.get(KEY_VARIABLE, "").strip() or None
        engine = Engine(policy, policy_version, settings)
        try:
            address = f"[{host}]" if ":" in host else host
            typer.echo(f"http://{address}:{listener.getsockname()[1]}/v1")
            updates = "can be updated" if key else f"stay ({KEY_VARIABLE} is not set)"
            typer.echo(
                f"serving {served.name}: {size:,} parameters, window {served.window}, policy version "
                f"{policy_version}; the weights {updates}; until Ctrl-C",
                err=True,
            )
            if served.dialect.chats and served.dialect.marker is None:
                typer.echo("its chat template knows no tools: requests with tools are answered in text", err=True)
            _forget_garbage()
            asyncio.run(_serve(App(served, engine, key=key, request_timeout=timeout), listener, engine))
        finally:
            engine.close()
    finally:
        listener.close()
    if engine.failure is not None:
        typer.echo(f"error: the policy server has ended: {engine.failure}", err=True)
        return 1
    return 0


def _forget_garbage() -> None:
    """What was loaded stays: a collector that looks through it again and again would stop the engine for it."""
    import gc

    gc.collect()
    gc.freeze()


async def _serve(app: App, listener: Any, engine: Engine) -> None:
    stop = asyncio.Event()
    serving = await begin(app, listener, stop)
    stopping = asyncio.create_task(told_to_end())
    dying = asyncio.create_task(asyncio.to_thread(engine.wait))
    try:
        await asyncio.wait({serving, stopping, dying}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(engine.close)  # requests under way are told so now, and none waits for the deadline
        stop.set()
        await serving
    finally:
        stopping.cancel()
