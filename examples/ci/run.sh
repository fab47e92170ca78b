#!/usr/bin/env bash
# The CI step on a job and a baseline made here, as GitHub runs it.      ./run.sh [FOLDER FOR JOBS]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work" && cd "$work"
harness run --suite hello --agent oracle --jobs-dir jobs --name ci --allow-unsafe-local >/dev/null
harness baseline save jobs/ci baseline.json
export GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=$work/summary.md GITHUB_OUTPUT=$work/output GATE_OPTIONS="--min-tasks 5"
"$here/gate.sh" jobs/ci baseline.json gate
cat "$GITHUB_OUTPUT"
