#!/usr/bin/env bash
# Installs the backend of this folder, proves it with the conformance suite, and runs the bundled tasks on it.
# ./run.sh [FOLDER FOR JOBS]
set -euo pipefail
cd "$(dirname "$0")"
work=${1:-$(mktemp -d)}
python -m pip install --quiet --disable-pip-version-check --no-deps --target "$work/site" . ||
    { echo "this example needs a package index, for its build"; exit 77; }
export PYTHONPATH=$work/site
python check.py
harness run --suite hello --agent oracle --backend house --jobs-dir "$work/jobs" --name house --fail-under 1
