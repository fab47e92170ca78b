"""task.toml, schema 1.0 to 1.4, as its author wrote it: None where the author wrote nothing.

Only shapes and values are checked here; what a setting means for a sandbox is decided by `environment` and `steps`.
Keys that no model names are left to `keys`, so that a file with a stray key still loads.
"""

from __future__ import annotations

import re
import tomllib
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from harness.errors import TaskInvalid, TaskUnsupported

SCHEMA = re.compile(r"1(\.\d+)*")

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Pause = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(pattern=r"^[^\x00]+$")]
AbsolutePath = Annotated[str, Field(pattern=r"^/[^\x00]*$")]
User = Text | Annotated[int, Field(ge=0)]


def _checked_env(env: dict[str, str]) -> dict[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"{name!r} cannot be an environment variable")
    return env


def _size_mb(value: object) -> float:
    text = value if isinstance(value, str) else ""
    match = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT])(?:i?B|i)?\s*", text, re.IGNORECASE | re.ASCII)
    if match is None:
        raise ValueError("must be a size such as '512M' or '2G'")
    return float(match[1]) * {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}[match[2].upper()]


def _inside(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("must not contain '..'")
    return path


def _destination(path: str) -> str:
    if path.startswith("/") or "\\" in path or path.strip("/") in ("", ".", "manifest.json"):
        raise ValueError("must be a relative path with forward slashes, and not manifest.json")
    return _inside(path)


def _step_name(name: str) -> str:
    if not name.strip() or name.endswith((".", " ")) or re.search(r'[<>:"/\\|?*\x00-\x1f\x7f]', name):
        raise ValueError("must be a portable folder name")
    if len(name.encode()) > 255:
        raise ValueError("must be at most 255 bytes")
    return name


Env = Annotated[dict[str, str], AfterValidator(_checked_env)]
Size = Annotated[Amount, BeforeValidator(_size_mb)]


class Table(BaseModel):
    """Base of all tables: strict types, as TOML has them."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class NetworkTable(Table):
    """Network access, of an environment or of one phase in it."""

    network_mode: Literal["no-network", "public", "allowlist"] | None = None
    allowed_hosts: list[str] | None = None


class HealthcheckTable(Table):
    """A command that tells when the environment is ready; times in seconds."""

    command: Text
    interval_sec: Pause = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Pause = 0.0
    start_interval_sec: Pause = 5.0
    retries: Annotated[int, Field(ge=1)] = 3


class McpServerTable(Table):
    """A tool server for the agent."""

    name: Text
    transport: str | None = None
    url: str | None = None
    command: str | None = None
    args: list[str] = []
    headers: dict[str, str] = {}


class TpuTable(Table):
    """A slice of TPUs."""

    type: Text
    topology: Text


class EnvironmentTable(NetworkTable):
    """`[environment]` and `[verifier.environment]`; sizes in megabytes. `memory` and `storage` are older spellings."""

    build_timeout_sec: Seconds | None = None
    docker_image: Text | None = None
    os: str | None = None
    cpus: Amount | None = None
    memory_mb: Amount | None = None
    memory: Size | None = None
    storage_mb: Amount | None = None
    storage: Size | None = None
    gpus: Annotated[int, Field(ge=0)] | None = None
    gpu_types: list[str] | None = None
    tpu: TpuTable | None = None
    mcp_servers: list[McpServerTable] = []
    env: Env = {}
    skills_dir: str | None = None
    healthcheck: HealthcheckTable | None = None
    workdir: AbsolutePath | None = None
    allow_internet: bool | None = None


class CollectTable(Table):
    """A command that turns state into files before artifacts are collected."""

    command: Text
    service: Text = "main"
    timeout_sec: Seconds = 60.0
    user: User | None = None


class VerifierTable(NetworkTable):
    """`[verifier]`, of the task or of a step."""

    timeout_sec: Seconds | None = None
    env: Env = {}
    user: User | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectTable] = []
    reward_range: list[Finite] | None = None

    @property
    def mode(self) -> Literal["shared", "separate"] | None:
        """Where this table asks to verify; None if it does not say."""
        return self.environment_mode or ("separate" if self.environment else None)

    @model_validator(mode="after")
    def _environment_needs_separate(self) -> VerifierTable:
        if self.environment_mode == "shared" and self.environment is not None:
            raise ValueError("environment_mode = 'shared' contradicts the environment table next to it")
        return self


class AgentTable(NetworkTable):
    """`[agent]`, of the task or of a step."""

    timeout_sec: Seconds | None = None
    user: User | None = None


class ArtifactTable(Table):
    """A file or folder of the sandbox to be kept."""

    source: Annotated[Text, AfterValidator(_inside)]
    destination: Annotated[Text, AfterValidator(_destination)] | None = None
    exclude: list[Text] = []
    service: Text | None = None


class StepTable(Table):
    """One of `[[steps]]`; its files lie in steps/<name>/."""

    name: Annotated[str, AfterValidator(_step_name)]
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: Finite | dict[str, Finite] | None = None
    healthcheck: HealthcheckTable | None = None
    artifacts: list[Annotated[Text, AfterValidator(_inside)] | ArtifactTable] = []


class SolutionTable(Table):
    """`[solution]`."""

    env: Env = {}


class AuthorTable(Table):
    """One of `[task] authors`."""

    name: str
    email: str | None = None


class PackageTable(Table):
    """`[task]`: how a registry knows the task."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?$", max_length=200)]
    version: str | None = None
    description: str = ""
    authors: list[AuthorTable] = []
    keywords: list[str] = []


class TaskConfig(Table):
    """The whole file."""

    schema_version: str | float | None = None
    version: str | float | None = None
    task: PackageTable | None = None
    metadata: dict[str, Any] = {}
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    source: str | None = None
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[StepTable] = []
    artifacts: list[Annotated[Text, AfterValidator(_inside)] | ArtifactTable] = []

    @model_validator(mode="after")
    def _step_names_differ(self) -> TaskConfig:
        folded = [step.name.casefold() for step in self.steps]
        if len(set(folded)) < len(folded):
            raise ValueError("two steps have the same name")
        return self


def parse_toml(text: str) -> dict[str, Any]:
    """The raw tables. Raises TaskInvalid where the text is not TOML."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise TaskInvalid("task.toml is nested too deeply") from None
    except ValueError as error:
        raise TaskInvalid(f"task.toml is not valid TOML: {error}") from None


def parse_config(tables: dict[str, Any]) -> TaskConfig:
    """The checked file. Raises TaskInvalid naming the first wrong key, TaskUnsupported for another major version."""
    try:
        config = TaskConfig.model_validate(tables)
    except ValidationError as error:
        raise TaskInvalid(first_error(error)) from None
    schema = config.schema_version if config.schema_version is not None else config.version
    if schema is not None and not SCHEMA.fullmatch(str(schema)):
        raise TaskUnsupported(f"task.toml has schema version {str(schema)[:40]!r}; versions 1.0 to 1.4 are understood")
    return config


def first_error(error: ValidationError, table: str = "") -> str:
    """One line about the first wrong key of the file, or of one of its tables."""
    problems = error.errors(include_url=False, include_context=False)
    first = problems[0]
    where = ".".join(str(part) for part in (*filter(None, [table]), *first["loc"])) or "the file"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    value = first["input"]
    shown = "" if isinstance(value, dict | list) else f", not {str(value)[:60]!r}"
    return f"task.toml: {where}: {first['msg'].removeprefix('Value error, ')}{shown}{more}"
