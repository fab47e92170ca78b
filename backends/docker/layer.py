"""A layer as a build folder: a Dockerfile that starts from the image, runs the script, and leaves all else alone."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from pathlib import Path

from backends.spec import Layer

_PLACE = "/.harness-layer"
_SCRIPT, _ENV = "install.sh", "env.sh"
_MAX_WORDS = 400
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_ENGINE = ("The command '/bin/sh -c", "Step ", "---> ", "Removing intermediate container")


def layer_key(layer: Layer, image_id: str) -> str:
    """Names what comes of installing a layer on an image."""
    return hashlib.sha256(f"{image_id}\0{layer.digest}".encode()).hexdigest()


def write_context(folder: Path, layer: Layer, *, base: str, user: str) -> None:
    """Write the build folder. `base` is the image, `user` its own default user, who stays that.

    Raises ValueError for a file that would take the script's or the Dockerfile's place, OSError if one cannot be read.
    """
    context = folder / "files"
    context.mkdir()
    (context / _SCRIPT).write_text(layer.script, encoding="utf-8")
    exports = (f"export {name}={shlex.quote(value)}\n" for name, value in layer.env.items())
    (context / _ENV).write_text("".join(exports), encoding="utf-8")
    for name, source in layer.files.items():
        if Path(name).name != name or name in (_SCRIPT, _ENV):
            raise ValueError(f"a layer's file cannot be called {name!r}")
        shutil.copyfile(source, context / name)
    run = f"cd {_PLACE} && . ./{_ENV} && /bin/sh -e ./{_SCRIPT} </dev/null && cd / && rm -rf {_PLACE}"
    lines = [f"FROM {base}", *(["USER root"] if user else []), f"COPY files {_PLACE}", f"RUN {run}"]
    if user:
        lines.append(f"USER {user}")
    (folder / "Dockerfile").write_text("\n".join(lines) + "\n", encoding="utf-8")


def last_words(log: str) -> str:
    """The last line that the script printed, before what the engine says of it."""
    lines = (_COLOURS.sub("", line).strip() for line in log.splitlines())
    said = [line for line in lines if line and not line.startswith(_ENGINE)]
    return said[-1][:_MAX_WORDS] if said else ""
