#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

sum_of() { # FILE
    [ -f "$1" ] && [ ! -L "$1" ] && sha256sum < "$1" | cut -d' ' -f1
}

main() {
    PATH=/usr/bin:/bin
    local right=0 content pair id sum
    local untouched='145ece8539eab19eb8ce61c39913bda1a6e55d63e8b4a191a9d429ef55a200fe  A-1007.toml
b4f1f950f646e17613651702c173e5790dd3a7f59ef47c1b9ebcd213bd368e50  A-1490.toml
7e5a9e9deac52c530ba2f2f5c2cc7d64d409684bb3ff522b5ee2e4618d6cdb55  A-2040.toml
c02cc8fa655c6fc15cccfa7ed627fa65212121593f4cd7806e207a5ddca5ffe1  A-2215.toml
6ca7817b2755ae474f40859b7ae1304901fecf594bdd1e46adc02799856b6da5  A-3801.toml
721fb407e716f1bb4a8605f735ac876f986653bf5c40b02014412335b843402c  A-4106.toml
458865ba649501ef9db3d07b0ea25e4db8aa78c76ea0721071db61ea81a6e623  A-4550.toml'
    content=$(text /app/decisions.csv)
    for pair in A-1182,closed,CLS-71Q:3ca879b481dbedc53b3ef26afff9ff79456453c730003ec34089284bf38714e2 \
        A-3377,closed,CLS-80V:780a59c4d2ee422c23472fc1e8463f37da4d6389090fe8cd3b2e6dbcc50489e9 \
        A-2040,kept,HOLD-3M A-4106,kept,HOLD-9T; do
        id=${pair%%,*}
        sum=${pair#*:}
        if [ "$(grep "^$id," <<< "$content")" != "${pair%%:*}" ]; then
            echo "the line of $id is wrong or missing"
        elif [ "$sum" != "$pair" ] && [ "$(sum_of "/app/accounts/$id.toml")" != "$sum" ]; then
            echo "$id was to be closed and nothing else"
        else
            right=$((right + 1))
        fi
    done
    # Files first, so that nothing else is opened for its sum.
    if [ "$(find /app/accounts -type f -name 'A-*.toml' | wc -l)" != 9 ] \
        || [ "$(find /app/accounts -mindepth 1 | wc -l)" != 9 ] \
        || ! (cd /app/accounts && sha256sum --check --strict --quiet <<< "$untouched"); then
        echo 'an account was changed that should have been left alone'
        right=0
    fi
    if grep -vE '^(A-1182|A-3377|A-2040|A-4106),' <<< "$content" | grep -q .; then
        echo 'a line too many'
        right=0
    fi
    case $right in
        4) echo 1.0 ;;
        3) echo 0.75 ;;
        2) echo 0.5 ;;
        1) echo 0.25 ;;
        *) echo 0.0 ;;
    esac > /logs/verifier/reward.txt
    exit 0
}
main
