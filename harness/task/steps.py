"""From task.toml and the folder to the steps of a task. A plain task is one step without a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from backends.spec import NetworkMode
from harness.errors import TaskInvalid, TaskUnsupported
from harness.task.config import ArtifactTable, StepTable, TaskConfig
from harness.task.environment import build_environment, build_healthcheck, limit_of, network_of
from harness.task.instruction import strip_canary
from harness.task.model import Artifact, Environment, Step
from harness.task.tree import read_text
from harness.task.verification import verifier_sandbox

DEFAULT_AGENT_SEC = 3600.0
DEFAULT_VERIFIER_SEC = 600.0


def build_steps(config: TaskConfig, root: Path) -> tuple[Environment, tuple[Step, ...]]:
    """The agent's environment and what happens in it, in order.

    Raises TaskInvalid for missing files and contradictions, TaskUnsupported for what cannot be honoured.
    """
    baseline = network_of(config.environment, "[environment]") or NetworkMode.FULL
    agent_network = _agreed(_agent_networks(config, baseline), "[agent]")
    environment = build_environment(
        config.environment,
        place="[environment]",
        image=config.environment.docker_image,
        folder=root / "environment",
        network=agent_network,
    )
    tables: list[StepTable] | list[None] = config.steps or [None]
    first, *later = [_step(config, table, root, environment) for table in tables]
    if environment.image is not None and _has_loose_files(root / "environment"):
        if first.files_dir is not None:
            raise TaskUnsupported("environment/ has loose files and the first step a workdir/: keep one of the two")
        first = replace(first, files_dir=root / "environment")
    return environment, (first, *later)


def _step(config: TaskConfig, table: StepTable | None, root: Path, environment: Environment) -> Step:
    folder = root if table is None else root / "steps" / table.name
    prefix = "" if table is None else f"steps/{table.name}/"
    if not folder.is_dir():
        raise TaskInvalid(f"step {folder.name!r} has no folder steps/{folder.name}")
    if (folder / "trajectory.json").exists():
        raise TaskUnsupported(f"{prefix}trajectory.json is a prior conversation, which no agent here can continue")
    agent, verifier = (table.agent, table.verifier) if table else (config.agent, config.verifier)
    if config.verifier.collect or verifier.collect:
        raise TaskUnsupported("[[verifier.collect]] commands are not run here")
    own = verifier_sandbox(config, table, root)
    own_network = NetworkMode.FULL
    verifier_network = network_of(verifier, "[verifier]") or network_of(config.verifier, "[verifier]")
    if own is not None:
        own_network = verifier_network or network_of(own.table, f"[{own.place}]") or NetworkMode.FULL
    else:
        baseline = network_of(config.environment, "[environment]") or NetworkMode.FULL
        _agreed([verifier_network or baseline, environment.network], "[verifier]")
    return Step(
        name=None if table is None else table.name,
        instruction=strip_canary(read_text(root, f"{prefix}instruction.md")),
        tests=() if own is not None and own.has_tests else _tests(root, folder),
        solution_dir=_solution(root, folder),
        files_dir=folder / "workdir" if table is not None and (folder / "workdir").is_dir() else None,
        solution_env=config.solution.env,
        agent_timeout=limit_of(_first(agent.timeout_sec, config.agent.timeout_sec), DEFAULT_AGENT_SEC),
        agent_user=_user(agent.user, config.agent.user),
        verifier_timeout=limit_of(_first(verifier.timeout_sec, config.verifier.timeout_sec), DEFAULT_VERIFIER_SEC),
        verifier_user=_user(verifier.user, config.verifier.user),
        verifier_env={**config.verifier.env, **verifier.env},
        verifier_environment=None
        if own is None
        else build_environment(
            own.table, place=f"[{own.place}]", image=own.image, folder=own.folder, network=own_network
        ),
        healthcheck=build_healthcheck(table.healthcheck) if table else None,
        artifacts=_artifacts([*config.artifacts, *(table.artifacts if table else [])]),
        min_reward=_thresholds(table),
    )


def _agent_networks(config: TaskConfig, baseline: NetworkMode) -> list[NetworkMode]:
    whole = network_of(config.agent, "[agent]") or baseline
    return [network_of(step.agent, "[steps.agent]") or whole for step in config.steps] or [whole]


def _agreed(networks: list[NetworkMode], place: str) -> NetworkMode:
    """The one network of a sandbox: it cannot be changed while the sandbox lives."""
    if len(set(networks)) > 1:
        raise TaskUnsupported(f"{place} changes the network of a running sandbox, which cannot be done here")
    return networks[0]


def _has_loose_files(folder: Path) -> bool:
    """Whether files next to a ready image wait to be copied into its workdir."""
    return folder.is_dir() and not (folder / "Dockerfile").exists() and any(folder.iterdir())


def _tests(root: Path, folder: Path) -> tuple[Path, ...]:
    folders = tuple(path for path in dict.fromkeys((root / "tests", folder / "tests")) if path.is_dir())
    if not any((path / "test.sh").is_file() for path in folders):
        raise TaskInvalid(f"{(folder / 'tests' / 'test.sh').relative_to(root)} is missing")
    return folders


def _solution(root: Path, folder: Path) -> Path | None:
    for path in dict.fromkeys((folder / "solution", root / "solution")):
        if path.is_dir():
            return path if (path / "solve.sh").is_file() else None
    return None


def _artifacts(entries: list[str | ArtifactTable]) -> tuple[Artifact, ...]:
    artifacts: dict[str, Artifact] = {}
    for entry in entries:
        table = ArtifactTable(source=entry) if isinstance(entry, str) else entry
        if table.service not in (None, "main"):
            raise TaskUnsupported(f"artifact {table.source!r} comes from a service, and there is only one container")
        destination = (table.destination or table.source).strip("/") or "root"
        artifacts.setdefault(
            destination, Artifact(source=table.source, destination=destination, exclude=tuple(table.exclude))
        )
    return tuple(artifacts.values())


def _thresholds(table: StepTable | None) -> dict[str, float]:
    if table is None or table.min_reward is None:
        return {}
    return dict(table.min_reward) if isinstance(table.min_reward, dict) else {"reward": table.min_reward}


def _user(own: str | int | None, inherited: str | int | None) -> str | None:
    user = own if own is not None else inherited
    return None if user is None else str(user)


def _first(own: float | None, inherited: float | None) -> float | None:
    return own if own is not None else inherited
