"""A family of tasks in Harbor's format: one of three files holds a key, which has to be copied to another.

    python family.py FOLDER --tasks 64 --seed 1

The same seed gives the same tasks. Keys have four of eight letters, so that two seeds share few tasks, and none of them
can be guessed. A task takes two to five shell commands, and is graded by what lies in /app/k at the end.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

FILES, LETTERS, KEY_LENGTH = "abc", "klmnopqr", 4
NOTHING = "no"

TASK = """\
schema_version = "1.4"

[task]
name = "find-key/{name}"
description = "Find the key among three files and copy it."

[metadata]
category = "file_operations"
difficulty = "easy"
reward = "binary"

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 30.0

[environment]
build_timeout_sec = 60.0
network_mode = "no-network"
cpus = 1
memory_mb = 256
"""
INSTRUCTION = "Copy the key to k.\n"
DOCKERFILE = "FROM debian:bookworm-slim\nWORKDIR /app\nCOPY files /app\n"
SOLUTION = """\
#!/bin/sh
cd /app && grep -hvx {nothing} a b c > k
"""
TEST = """\
#!/bin/sh
# A link could point at whatever this script holds; only a file of its own counts.
reward=0
if [ -f /app/k ] && [ ! -L /app/k ] && [ "$(head -c 64 /app/k)" = {key} ]; then reward=1; fi
echo $reward > /logs/verifier/reward.txt
"""


def make_task(folder: Path, rng: random.Random) -> None:
    """Write one task."""
    key = "".join(rng.choice(LETTERS) for _ in range(KEY_LENGTH))
    holder = rng.choice(FILES)
    texts = {
        "task.toml": TASK.format(name=folder.name),
        "instruction.md": INSTRUCTION,
        "environment/Dockerfile": DOCKERFILE,
        "solution/solve.sh": SOLUTION.format(nothing=NOTHING),
        "tests/test.sh": TEST.format(key=key),
        **{f"environment/files/{file}": f"{key if file == holder else NOTHING}\n" for file in FILES},
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for script in ("solution/solve.sh", "tests/test.sh"):
        (folder / script).chmod(0o755)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    for number in range(asked.tasks):
        make_task(asked.folder / f"s{asked.seed}-{number:04}", rng)


if __name__ == "__main__":
    main()
