"""Making the agent from its settings."""

from __future__ import annotations

from dataclasses import replace

from harness.agents.cli_native.agent import CliAgent
from harness.agents.cli_native.config import CliConfig
from harness.agents.cli_native.install import layer
from harness.errors import UsageError
from harness.llm.scripted import ScriptedModel, load_script
from harness.proxy.service import Source, require_packages

_SCRIPTED = "scripted"


def create_cli(config: CliConfig, name: str) -> CliAgent:
    """The agent. Raises UsageError when something is missing here, or when it is not said who answers."""
    where = f"agent {name!r}"
    require_packages(where)
    if not config.model:
        if config.script is None:
            raise UsageError(f"{where}: 'model' must be set: -m NAME, or model = ... in harness.toml")
        config = config.model_copy(update={"model": _SCRIPTED})
    source = _source(config, where)
    return CliAgent(config, name=name, layer=layer(config, name), source=lambda: source)


def _source(config: CliConfig, where: str) -> Source:
    if config.script is not None:
        if config.base_url or config.upstreams:
            raise UsageError(f"{where} is answered by a script or by an endpoint, not by both")
        return ScriptedModel(load_script(config.script), name=config.model)
    if not config.upstreams:
        return config.endpoint()
    if config.base_url is not None:
        raise UsageError(f"{where}: name one endpoint as base_url, or several as upstreams")
    for url, weight in config.upstreams.items():
        if not url.startswith(("http://", "https://")) or not weight > 0:
            raise UsageError(f'{where}: upstreams are written as {{ "http://host:8000/v1" = 1 }}, with weights above 0')
    endpoint = config.model_copy(update={"base_url": next(iter(config.upstreams))}).endpoint()
    return [(replace(endpoint, base_url=url), weight) for url, weight in config.upstreams.items()]
