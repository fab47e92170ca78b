#!/bin/bash
text() { # FILE: its lines but empty ones, each with the file's name in front, if it is a file of its own and no link
    [ -f "$1" ] && [ ! -L "$1" ] || return 0
    local name=${1##*/}
    head -c 10000 "$1" | tr -d '\r\0' | sed "/^\$/d; s/^/${name%.txt}|/"
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local lines=() right=0 wrong=0 line
    local expected=(
        'note-1|docket HRB-621-044-P'
        'note-1|from HRB'
        'note-1|to MLX'
        'note-1|kilograms 2515'
        'note-1|pallets 5'
        'note-1|class -'
        'note-2|docket HRB-622-045-W'
        'note-2|from HRB'
        'note-2|to QYW'
        'note-2|kilograms 3790'
        'note-2|pallets 8'
        'note-2|class 8'
        'note-3|docket WWW-622-001-G'
        'note-3|from WWW'
        'note-3|to MKT'
        'note-3|kilograms 330'
        'note-3|pallets 2'
        'note-3|class 3'
        'register|HRB-621-044-P'
        'register|HRB-622-045-W'
        'register|WWW-622-001-G'
    )
    local before='HRB-588-041-K
MLX-590-007-B
HRB-601-042-T
QYW-604-011-C
HRB-604-043-A
MLX-611-008-Z'
    local notes=(/app/note-1.txt /app/note-2.txt /app/note-3.txt)
    mapfile -t -n 1000 lines < <(for note in "${notes[@]}"; do text "$note"; done)
    # What stood in the register before must still be there; only what follows is looked at.
    if [ "$(text /app/register.txt | head -n 6 | sed 's/^register|//')" = "$before" ]; then
        mapfile -t -n 1000 -O "${#lines[@]}" lines < <(text /app/register.txt | tail -n +7)
    fi
    declare -A open
    for line in "${expected[@]}"; do open["=$line"]=1; done
    for line in "${lines[@]}"; do
        # A line counts once: it is crossed off when it is found.
        if [ "${open["=$line"]:-0}" = 1 ]; then
            open["=$line"]=0
            right=$((right + 1))
        else
            echo "not expected: ${line:0:200}"
            wrong=$((wrong + 1))
        fi
    done
    local score=$((right > wrong ? (right - wrong) * 100 / ${#expected[@]} : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
