#!/bin/bash
# A function, so that the whole script is read before any program of the agent's runs.
call() {
    # A clean environment and a deadline; the output goes to a file, so that nothing left running holds us up.
    timeout -k 1 5 env -i PATH=/usr/bin:/bin bash /app/slugify.sh "$1" < /dev/null > "$scratch" 2> /dev/null
    local status=$?
    head -c 10000 "$scratch"
    echo "status $status"
}

check() { # TITLE SLUG: the exit status and the output must both be right
    local printed
    printed=$(call "$1")
    [ "$printed" = "$2"$'\n''status 0' ] && return 0
    echo "wrong for the title '$1'"
    return 1
}

check_refused() { # TITLE
    local printed
    printed=$(call "$1")
    [ "$printed" = 'status 1' ] && return 0
    echo "not refused: '$1'"
    return 1
}

main() {
    PATH=/usr/bin:/bin
    local wrong=0 reward=0 scratch
    scratch=$(mktemp)
    check 'Release Notes' 'release-notes' || wrong=1
    check '  Two   spaces,  twice  ' 'two-spaces-twice' || wrong=1
    check 'C++ & Rust: 10 tips/tricks' 'c-rust-10-tips-tricks' || wrong=1
    check '***a***' 'a' || wrong=1
    check '-n' 'n' || wrong=1
    check '-e tab\there' 'e-tab-there' || wrong=1
    check 'x_y.z' 'x-y-z' || wrong=1
    check '2024' '2024' || wrong=1
    check_refused '?! --' || wrong=1
    check_refused '' || wrong=1
    check_refused '/*' || wrong=1
    [ "$wrong" = 0 ] && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
