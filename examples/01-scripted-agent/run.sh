#!/usr/bin/env bash
# The tool-calling agent with a model that plays fixed replies: no key, no network, and real commands in a real sandbox.
# Prints the result, then the trajectory.      ./run.sh [FOLDER FOR JOBS] [MORE OPTIONS OF harness run]
set -euo pipefail
cd "$(dirname "$0")"
jobs=${1:-jobs}
shift || true
name=greeter-$(date +%Y%m%d-%H%M%S)
harness run hello/greeting --agent greeter --jobs-dir "$jobs" --name "$name" --fail-under 1 "$@"
harness show "$jobs/$name/hello--greeting__1"
