#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local file=/app/table.txt lines=() right=0 wrong=0 heading=0 line
    local expected=(
        'dato; genstand; laengde_m; vaegt_kg'
        '2029-01-19; oak plank; 4,48; 36,15'
        '2029-04-10; rudder pin; 2,10; 35,65'
        '2029-06-01; bronze cleat; 5,09; 20,55'
        '2029-07-18; keel bolt; 1,52; 40,28'
        '2029-08-22; mast foot; 6,55; 14,83'
        '2030-04-14; anchor stock; 7,28; 39,33'
        '2031-01-01; rope end; 6,49; 12,84'
        '2031-02-08; barrel stave; 4,39; 6,17'
        '2031-02-18; ship'\''s bell; 2,32; 37,42'
        '2031-02-25; lead weight; 1,22; 5,26'
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
            [ "$line" != "${expected[0]}" ] || { heading=1; continue; }
            right=$((right + 1))
        else
            echo "not expected: ${line:0:200}"
            wrong=$((wrong + 1))
        fi
    done
    # The heading counts once there is something below it; the order of the lines is worth a share as well.
    if [ "$right" -gt 0 ]; then
        right=$((right + heading))
        if [ "${lines[*]}" = "${expected[*]}" ]; then right=$((right + 1)); fi
    fi
    local score=$((right > wrong ? (right - wrong) * 100 / (${#expected[@]} + 1) : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
