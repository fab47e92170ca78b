#!/usr/bin/env bash
# An agent built on deepagents runs a bundled task in any of our sandboxes. Needs: pip install deepagents
# ./run.sh [FOLDER FOR JOBS] [MORE OPTIONS OF harness run, e.g. --backend docker]
set -euo pipefail
cd "$(dirname "$0")"
python -c 'import deepagents' 2>/dev/null || { echo "this example needs: pip install deepagents"; exit 77; }
jobs=${1:-jobs}
shift || true
name=deep-$(date +%Y%m%d-%H%M%S)
export LANGSMITH_TRACING=false
PYTHONPATH=$PWD harness run hello/greeting --agent deep_agent:DeepAgent --jobs-dir "$jobs" --name "$name" --fail-under 1 "$@"
harness show "$jobs/$name/hello--greeting__1"
