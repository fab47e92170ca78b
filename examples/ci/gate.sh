#!/usr/bin/env bash
# The gate as a step of CI, and as a hook before a push:      gate.sh JOB BASELINE [FOLDER FOR gate.json, .md AND .xml]
#
# Exit codes: 0 no worse, or undecided; 1 worse; 3 not comparable, most often infrastructure: run again, do not revert.
# Further options stand in GATE_OPTIONS. Inside GitHub it annotates the run and writes the step's summary.
set -euo pipefail
job=$1
baseline=$2
out=${3:-gate}
format=text
[[ ${GITHUB_ACTIONS:-} != true ]] || format=github
if [[ $baseline != git:* && ! -e $baseline ]]; then
    echo "no baseline at $baseline yet: nothing to compare with"
    exit 0
fi
read -ra options <<<"${GATE_OPTIONS:-}"
exec harness gate "$job" --baseline "$baseline" --format "$format" --out "$out" "${options[@]}"
