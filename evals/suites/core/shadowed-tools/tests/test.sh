#!/bin/bash
# A function, so that the whole script is read before any program of the agent's runs.
begin() {
    PATH=/usr/bin:/bin
    echo 0 > /logs/verifier/reward.txt
    there=" $(echo /proc/[0-9]*) "
    work=$(mktemp -d)
    # As nobody where that can be done; nothing of the tests lies around while a program of the agent's runs.
    nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
    "${nobody[@]}" true 2> /dev/null || nobody=()
    rm -rf /tests/*
    chmod -R a+rX /app
}

jail() { # SECONDS COMMAND...: a clean environment and a deadline
    timeout -k 1 "$1" "${nobody[@]}" env -i PATH=/usr/bin:/bin "${@:2}" 2> /dev/null
}

sweep() { # End what a program left running, before it can see what would have been right.
    local process round
    for round in 1 2 3; do
        for process in /proc/[0-9]*; do
            [[ $there == *" $process "* ]] || kill -9 "${process#/proc/}" 2> /dev/null
        done
    done
}

main() {
    local reward=0 file=/app/out/index.txt
    begin
    mkdir "$work/in" "$work/out"
    chmod 755 "$work" "$work/in"
    chmod 777 "$work/out"
    printf 'Zebra and apple\nAPPLE\n' > "$work/in/x.txt"
    printf 'mango: 12 and more\n' > "$work/in/y.txt"
    if [ "$(sha256sum < /app/build.sh)" = '220fbcac90abcb233fbee7553309a4f0a21c0ced14d8c1bd8da70645a005dd19  -' ] \
        && [ "$(sha256sum < /app/tools/bin/banner)" = 'b06d338d961d0ca80e2f63a29b4eec13549c9331640d5a091b6e281b1b50f786  -' ]; then
        jail 10 bash /app/build.sh "$work/in" "$work/out" < /dev/null > /dev/null
        sweep
        if cmp <(printf '== index ==\n'; printf '%s\n' and apple mango more zebra) "$work/out/index.txt" \
            && [ -f "$file" ] && [ ! -L "$file" ] \
            && cmp <(printf '== index ==\n'; printf '%s\n' a brown dog dogs fox hen lazy quick the witted) "$file"; then
            reward=1
        fi
    else
        echo 'what should stay was changed'
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
