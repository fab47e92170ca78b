# Shared by the steps: each sources this and calls `grade REPORT`.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

grade() { # REPORT: right lines less wrong ones, as a share; at most half of the reward if the order is wrong
    PATH=/usr/bin:/bin
    local expected=() lines=() content line right=0 wrong=0
    mapfile -t expected <<< "$1"
    content=$(text /app/report.txt)
    mapfile -t -n 1000 lines <<< "$content"
    declare -A open
    for line in "${expected[@]}"; do open[$line]=1; done
    for line in "${lines[@]}"; do
        [ -n "$line" ] || continue
        # A line counts once: it is crossed off when it is found.
        if [ "${open[$line]:-0}" = 1 ]; then open[$line]=0 right=$((right + 1)); else wrong=$((wrong + 1)); fi
    done
    local score=$((right > wrong ? (right - wrong) * 100 / ${#expected[@]} : 0))
    [ "$content" = "$1" ] || score=$((score > 50 ? 50 : score))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
