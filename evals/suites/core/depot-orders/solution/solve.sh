#!/bin/bash
set -eu
depot=/app/bin/depot
ship() { "$depot" ship "$1" --confirm "$("$depot" ship "$1" --dry-run | tail -n 1)"; }
"$depot" hold 4409 rotor lyon
"$depot" hold 4409 bearing porto
"$depot" hold 4411 bearing lyon
"$depot" hold 4411 gasket lyon
"$depot" hold 4411 rotor hamburg
"$depot" hold 4417 gasket porto
"$depot" hold 4417 bearing hamburg
ship 4409
ship 4411
ship 4417
"$depot" refuse 4420 --reason short
