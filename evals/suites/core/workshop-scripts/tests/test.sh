#!/bin/bash
# Functions, so that the whole script is read before any program of the agent's runs.
call() { # SCRIPT INPUT ARGUMENT...: what it prints, and its exit status
    local script=$1 input=$2
    shift 2
    # A clean environment and a deadline; the output goes to a file, so that nothing left running holds us up.
    printf '%b' "$input" > "$scratch.in"
    timeout -k 1 5 env -i PATH=/usr/bin:/bin bash "/app/$script/run.sh" "$@" < "$scratch.in" > "$scratch" 2> /dev/null
    local status=$?
    head -c 10000 "$scratch"
    echo "status $status"
}

gives() { # OUTPUT STATUS SCRIPT INPUT ARGUMENT...: output and exit status must both be right
    local expected=${1:+$1$'\n'}"status $2" script=$3
    shift 2
    [ "$(call "$@")" = "$expected" ] && return 0
    echo "wrong: $*"
    broken[$script]=1
}

main() {
    PATH=/usr/bin:/bin
    local scratch score script
    declare -A broken
    scratch=$(mktemp)
    gives 10 0 median '9\n10\n100\n'
    gives 2 0 median '2\n10\n'
    gives -7 0 median '3\n-7\n-20\n'
    gives 5 0 median '5\n'
    gives '' 1 median ''
    gives yes 0 brackets '' 'f(a[1], {b})'
    gives no 0 brackets '' '([)]'
    gives no 0 brackets '' ')('
    gives no 0 brackets '' '(('
    gives yes 0 brackets '' ''
    gives a3b1 0 runs '' aaab
    gives x1 0 runs '' x
    gives 'a1 2b2' 0 runs '' 'a  bb'
    gives ' 3' 0 runs '' '   '
    gives 31 0 month '' 2025 08
    gives 29 0 month '' 2024 2
    gives 28 0 month '' 1900 02
    gives 29 0 month '' 2000 2
    gives '' 2 month '' 2025 13
    gives '' 2 month '' 2025 00
    gives 1010 0 base '' 10 2
    gives 0 0 base '' 0 7
    gives ff 0 base '' 255 16
    gives 15530 0 base '' 7000 8
    gives f4240 0 base '' 1000000 16
    gives 'Khoor, Zruog!' 0 caesar '' 3 'Hello, World!'
    gives 'xyz XYZ' 0 caesar '' -3 'abc ABC'
    gives 'cde' 0 caesar '' 80 abc
    gives '-n' 0 caesar '' 0 '-n'
    gives 12 0 column 'name;pieces\na;5\nb;7\n' pieces
    gives 12 0 column 'pieces;name\n008;b\n;c\n4;d' pieces
    gives -1 0 column 'a;b\n1;2\n-2;3\n' a
    gives '' 3 column 'a;b\n1;2\n' c
    gives /a/c 0 path '' /a/./b//../c/
    gives / 0 path '' /../..
    gives / 0 path '' /
    gives /x/y 0 path '' ///x/././y/z/..
    gives /...a/.b 0 path '' /...a/.b
    score=$(((8 - ${#broken[@]}) * 1000 / 8))
    # What the agent's scripts may have left there.
    rm -rf /logs/verifier/reward.* /logs/verifier/status.json
    printf '%d.%03d\n' $((score / 1000)) $((score % 1000)) > /logs/verifier/reward.txt
    exit 0
}
main
