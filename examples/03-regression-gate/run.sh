#!/usr/bin/env bash
# A gate at work: the baseline solves every task, one run is as good, and one does nothing on purpose.
# Prints each gate's reasons and exit code.      ./run.sh [FOLDER FOR JOBS] [MORE OPTIONS OF harness run]
set -euo pipefail
jobs=${1:-$(mktemp -d)}
shift || true
stamp=$(date +%Y%m%d-%H%M%S)

run() { # NAME AGENT
    harness run --suite hello --agent "$2" --jobs-dir "$jobs" --name "$1-$stamp" --allow-unsafe-local "${@:3}" >/dev/null
}
gate() { # JOB EXPECTED-EXIT-CODE; the bundled suite is small, so fewer than ten tasks may be judged here
    local code=0
    harness gate "$jobs/$1-$stamp" --baseline "$jobs/baseline-$stamp.json" --min-tasks 5 --out "$jobs/$1-gate" || code=$?
    echo "exit code $code"
    echo
    [[ $code -eq $2 ]]
}

run baseline oracle "$@"
run same oracle "$@"
run regressed nop "$@"
harness baseline save "$jobs/baseline-$stamp" "$jobs/baseline-$stamp.json"
harness compare "$jobs/baseline-$stamp" "$jobs/regressed-$stamp"
echo
gate same 0
gate regressed 1
