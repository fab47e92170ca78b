"""Variables whose values a task leaves to the host: `${VAR}` and `${VAR:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import TaskInvalid

TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ResolvedEnv:
    """Variables ready for a sandbox.

    Attributes:
        values: the variables.
        secrets: the non-empty values that came from the host; nothing written anywhere may contain them.
    """

    values: dict[str, str]
    secrets: frozenset[str]


def resolve_env(templates: Mapping[str, str], host_env: Mapping[str, str]) -> ResolvedEnv:
    """Fill in templates from the host's environment; a value is a template only as a whole.

    The default stands in for a variable that is unset, not for one that is empty. Raises TaskInvalid naming the
    variable that is neither set nor has a default, so that nothing is built for a task that cannot run.
    """
    values: dict[str, str] = {}
    secrets: set[str] = set()
    for name, text in templates.items():
        template = TEMPLATE.fullmatch(text)
        if template is None:
            values[name] = text
        elif template[1] in host_env:
            values[name] = host_env[template[1]]
            secrets.add(values[name])
        elif template[2] is not None:
            values[name] = template[2]
        else:
            raise TaskInvalid(f"the task's variable {name} needs {template[1]}, which is not set: export {template[1]}")
    return ResolvedEnv(values, frozenset(secrets - {""}))
