"""`harness proxy`: the model proxy on its own, for one agent that is started by hand."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.upstream import weighted
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.proxy import Budget, Lease, ModelProxy
    from harness.proxy.service import Source

_FROM, _WHERE, _LIMITS, _TAPE = "Who answers", "Where", "Limits", "Record and replay"


def proxy(
    upstream: Annotated[
        list[str] | None,
        typer.Option(
            "--upstream",
            metavar="URL[=WEIGHT]",
            help="An OpenAI-compatible endpoint, e.g. http://gpu:8000/v1 (repeatable).",
            rich_help_panel=_FROM,
        ),
    ] = None,
    model: Annotated[
        str, typer.Option("--model", "-m", help="Asked for instead of the agent's own choice.", rich_help_panel=_FROM)
    ] = "",
    api_key_env: Annotated[
        str | None,
        typer.Option("--api-key-env", metavar="NAME", help="Holds the endpoint's key.", rich_help_panel=_FROM),
    ] = None,
    capture: Annotated[
        bool, typer.Option("--capture", help="Ask for token ids and log-probabilities.", rich_help_panel=_FROM)
    ] = False,
    script: Annotated[
        Path | None, typer.Option("--script", help="Fixed replies from a file instead.", rich_help_panel=_FROM)
    ] = None,
    host: Annotated[str, typer.Option(help="An address of this machine.", rich_help_panel=_WHERE)] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any free one.", min=0, max=65535, rich_help_panel=_WHERE)] = 0,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A folder for trajectory.json and rollout.bin.", rich_help_panel=_WHERE),
    ] = None,
    max_requests: Annotated[int | None, typer.Option(min=1, help="Answers.", rich_help_panel=_LIMITS)] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Input and output, over all answers.", rich_help_panel=_LIMITS)
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0, help="From now on.", rich_help_panel=_LIMITS)] = None,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="FILE", help="Write every answer down.", rich_help_panel=_TAPE)
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="FILE", help="Answer from such a file, byte for byte.", rich_help_panel=_TAPE),
    ] = None,
) -> int:
    """Serve a model to an agent of any dialect, and record what it does.

    Speaks OpenAI's chat completions and responses, Anthropic's messages, and Google's Gemini API. Ends with Ctrl-C.
    """
    from harness.proxy import Budget, ModelProxy

    if (upstream is not None) + (script is not None) + (replay is not None) != 1:
        raise UsageError("say who answers, by one of --upstream URL, --script FILE and --replay FILE")
    source = _scripted(script) if script is not None else _endpoints(upstream or [], model, api_key_env, capture)
    budget = Budget(requests=max_requests, tokens=max_tokens, seconds=max_seconds)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _require_place(folder)
        service = ModelProxy(source or None, host=host, port=port, record=record, replay=replay)
        lease = asyncio.run(_serve(service, folder, budget))
    end = lease.detail or (f"the endpoint failed: {lease.failure}" if lease.failure else None)
    typer.echo(f"{lease.answers} answers, {lease.account.tokens} tokens{f'; {end}' if end else ''}")
    if out is not None and lease.answers:
        typer.echo(f"trajectory: {out / 'trajectory.json'}")
    return 0


def _require_place(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot be made into a folder: {error.strerror}") from error
    if (folder / "trajectory.json").exists():
        raise UsageError(f"{folder} holds a trajectory already: name a new folder")


def _scripted(script: Path) -> Source:
    from harness.llm.scripted import ScriptedModel, load_script

    return ScriptedModel(load_script(script))


def _endpoints(upstream: list[str], model: str, api_key_env: str | None, capture: bool) -> Source:
    from harness.agents.endpoint import EndpointConfig

    if api_key_env is not None and not os.environ.get(api_key_env, "").strip():
        raise UsageError(f"--api-key-env names {api_key_env}, which is not set")
    ask = EndpointConfig(model=model, api_key_env=api_key_env, capture=capture)
    return [(ask.model_copy(update={"base_url": url}).endpoint(), weight) for url, weight in weighted(upstream).items()]


async def _serve(service: ModelProxy, folder: Path, budget: Budget) -> Lease:
    from harness import __version__
    from harness.atif.writer import TrajectoryWriter
    from harness.loopback import told_to_end
    from harness.redaction import Redactor
    from harness.store.rollout import RolloutWriter

    trajectory = TrajectoryWriter(
        folder / "trajectory.json",
        session_id="proxy",
        agent_name="proxied",
        agent_version=__version__,
        model_name=service.model or None,
        redact=Redactor(),
    )
    rollout = RolloutWriter(folder / "rollout.bin")
    try:
        async with service:
            lease = service.open(task_name="proxy", trajectory=trajectory, rollout=rollout, budget=budget)
            _greet(lease)
            await told_to_end()
            await lease.close()
    finally:
        trajectory.close()
        rollout.close()
    return lease


def _greet(lease: Lease) -> None:
    typer.echo(f"export OPENAI_BASE_URL={lease.openai_base_url} OPENAI_API_KEY={lease.key}")
    typer.echo(f"export ANTHROPIC_BASE_URL={lease.anthropic_base_url} ANTHROPIC_API_KEY={lease.key}")
    typer.echo(f"export GOOGLE_GEMINI_BASE_URL={lease.google_base_url} GEMINI_API_KEY={lease.key}")
    typer.echo("serving until Ctrl-C", err=True)
