"""What there is to say of an agent's program: how it is installed, started, stopped, and how its end is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from harness.agents.endpoint import EndpointConfig
from harness.failures import AgentStop

Dialect = Literal["chat", "responses", "messages", "gemini"]
"""What a program speaks to its model: OpenAI's chat completions or responses, Anthropic's messages, Google's Gemini."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class End(_Table):
    """One way in which the program ends. All of its conditions must hold."""

    stop: AgentStop
    when: dict[str, Any] = Field(default_factory=dict)
    """Values in the program's own result, by dotted key; a list is any of them, a text is a shell pattern."""
    exit_code: int | None = None
    detail: str | None = None
    """The dotted key of a line about it."""


class InstallTable(_Table):
    """How the program gets into an image, once for each image and version."""

    script: str = ""
    """Run by `/bin/sh -e` as root after the functions of `install.sh`; `$VERSION` is the version, `$PREFIX` the folder
    to install into. Empty: images are expected to have the program."""
    env: dict[str, str] = Field(default_factory=dict)
    """Further variables of the script, e.g. PIP_INDEX_URL."""
    pass_env: tuple[str, ...] = ("PIP_*", "NPM_CONFIG_*", "npm_config_*", "*_proxy", "*_PROXY")
    """Variables that the script gets from the harness's own environment, by shell pattern. Those that name a folder or
    file of this machine, or a secret, stay out."""
    timeout_sec: float = Field(default=900.0, gt=0)


class CliConfig(EndpointConfig):
    """A program, and the model behind it; times in seconds.

    Values of `env` may contain `{base_url}`, `{key}`, `{model}`, `{context_window}` and `{max_output_tokens}`; a
    variable with one that is not set is left out.
    """

    version: str
    dialect: Dialect
    command: str
    """Run by the sandbox's shell in its workdir, with the instruction on stdin. Its variables: those of `env`, `MODEL`,
    `LOGS` (a folder whose content is kept), `PREFIX`, and `SKILLS`, `CONTEXT_WINDOW`, `MAX_OUTPUT_TOKENS` if set."""
    continues: bool = False
    """Whether the command, where its variable `CONTINUED` is 1, goes on with the conversation of its latest run in the
    same sandbox: on stdin is what the user says next. Without it, tasks that say more than one thing are refused."""
    env: dict[str, str] = Field(default_factory=dict)
    install: InstallTable = Field(default_factory=InstallTable)
    ca_bundle: Path | None = None
    """A host file of certificates that pip, npm and curl trust while installing. None: the one that SSL_CERT_FILE names
    here, if any."""
    result: str = "stdout"
    """Where its own structured result stands: "stdout", or a file in `$LOGS`; JSON, or one JSON document a line."""
    ends: tuple[End, ...] = ()
    """Read from the last document that any of them fits, the first that does. With none at all, exit code 0 is a good
    end; with some, whatever fits none of them is `agent_exited`."""
    skills: str | None = None
    """Where the program looks for skills, e.g. "~/.claude/skills"; None: the instruction tells where they are."""

    model: str = ""
    """The model's name at the endpoint."""
    model_alias: str | None = None
    """What the program is told instead, for those that behave differently with models they know."""
    upstreams: dict[str, float] = Field(default_factory=dict)
    """Several endpoints of the same model by URL, with their weights; in place of `base_url`."""
    script: Path | None = None
    """A scripted model (see `harness.llm.scripted`) in place of an endpoint."""
    context_window: int | None = Field(default=None, ge=1)
    """Tokens that the model can read, told to the program where it can be told."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Tokens of one answer, told to the program where it can be told."""
    max_turns: int | None = Field(default=100, ge=1)
    """Answers of the model, those for sub-agents and summaries included."""
    token_budget: int | None = Field(default=None, ge=1)
    """Input and output tokens over all answers."""
    ending_sec: float = Field(default=20.0, ge=0)
    """How long the program may go on once its model answers no more."""
    log_bytes: int = Field(default=4 << 20, ge=1)
    """Of stdout and of stderr, each: the last bytes are kept."""
