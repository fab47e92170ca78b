#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local name gone=0 left=0 failed=0 score=0
    local keep=('report.txt' 'rf' 'ab' 'new' 'line' 'tail' 'x y' 'Ünïcode.md' 'sub/keep.txt' 'sub/a b' 'quote' '$HOME'
        'one' 'two.txt' '.hidden' 'back' 'c?')
    local listed=('-rf' 'a*' $'new\nline' 'tail ' ' x  y' 'ünïcode.md' 'sub/-n' $'tab\there' 'quo"te' "it's" '$(reboot)'
        'back\slash' 'c[d]' '--' 'sub/*' '~')
    echo 0 > /logs/verifier/reward.txt
    cd /app/uploads || exit 0
    for name in "${keep[@]}"; do
        if [ ! -f "./$name" ] || [ -L "./$name" ] || ! printf 'content of %s\n' "$name" | cmp -s - "./$name"; then
            printf 'lost or changed: %q\n' "$name"
            failed=1
        fi
    done
    for name in "${listed[@]}"; do
        if [ -e "./$name" ] || [ -L "./$name" ]; then left=$((left + 1)); else gone=$((gone + 1)); fi
    done
    # Counted by NUL, since a name may hold a line break.
    if [ "$(find . -mindepth 1 ! -type d -print0 | tr -dc '\0' | wc -c)" != $((${#keep[@]} + left)) ]; then
        echo 'there are other files, too'
        failed=1
    fi
    [ "$failed" = 0 ] && score=$((gone * 100 / ${#listed[@]}))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
