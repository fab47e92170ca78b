#!/usr/bin/env bash
# Starts a task of your own, proves it with its oracle (which must pass) and with nop (which must not), three times each.
# ./run.sh [FOLDER FOR TASKS AND JOBS] [MORE OPTIONS OF harness run]
set -euo pipefail
work=${1:-$(mktemp -d)}
shift || true
harness tasks init "$work/tasks" first-steps
harness run "$work/tasks" --agent oracle -k 3 --jobs-dir "$work/jobs" --name oracle --fail-under 1 "$@"
harness run "$work/tasks" --agent nop -k 3 --jobs-dir "$work/jobs" --name nop "$@"
harness show "$work/jobs/nop"
