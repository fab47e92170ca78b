#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local file=/app/answers.txt lines=() found=0 absent=0 wrong=0 line
    local expected=(
        '1: Ostend'
        '2: 1889'
        '3: unknown'
        '4: unknown'
        '5: 104'
        '6: unknown'
        '7: unknown'
        '8: unknown'
        '9: Cyrus Oakes'
        '10: 30'
        '11: unknown'
        '12: Rosehaven'
    )
    # A link could point at whatever this script happens to hold; only a file of its own counts.
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        mapfile -t -n 1000 lines < <(head -c 100000 "$file" | tr -d '\r\0')
    fi
    declare -A open
    for line in "${expected[@]}"; do open["=$line"]=1; done
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open["=$line"]:-0}" = 1 ]; then
            open["=$line"]=0
            case $line in
                *': unknown') absent=$((absent + 1)) ;;
                *) found=$((found + 1)) ;;
            esac
        else
            echo "not expected: ${line:0:200}"
            wrong=$((wrong + 1))
        fi
    done
    # Whoever finds little cannot know that something is absent.
    local right=$((found + (absent < found ? absent : found)))
    local score=$((right > wrong ? (right - wrong) * 100 / ${#expected[@]} : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
