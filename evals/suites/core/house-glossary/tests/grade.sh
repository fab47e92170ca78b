# Shared by the steps: each sources this and calls `grade GIVEN EXPECTED`.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

grade() { # GIVEN EXPECTED: of the lines that had to change, the share of right ones; less a share for each spoilt one
    PATH=/usr/bin:/bin
    local given=() expected=() lines=() total=0 right=0 wrong=0 i
    mapfile -t given <<< "$1"
    mapfile -t expected <<< "$2"
    mapfile -t -n 1000 lines <<< "$(text /app/out.txt)"
    for i in "${!expected[@]}"; do
        if [ "${given[i]}" != "${expected[i]}" ]; then
            total=$((total + 1))
            [ "${lines[i]:-}" = "${expected[i]}" ] && right=$((right + 1))
        else
            [ "${lines[i]:-}" = "${expected[i]}" ] || wrong=$((wrong + 1))
        fi
    done
    [ "${#lines[@]}" = "${#expected[@]}" ] || wrong=$((wrong + 1))
    local score=$((right > wrong ? (right - wrong) * 100 / total : 0))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
