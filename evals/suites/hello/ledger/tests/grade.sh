# Shared by the steps: each sources this and calls `grade LEDGER TOTAL`.

same() { # FILE TEXT: a file of its own, no link, that holds exactly this text
    [ -f "$1" ] && [ ! -L "$1" ] && printf '%s\n' "$2" | cmp - "$1"
}

grade() { # LEDGER TOTAL
    PATH=/usr/bin:/bin
    local halves=0
    same /app/ledger.txt "$1" && halves=$((halves + 1))
    same /app/total.txt "$2" && halves=$((halves + 1))
    case $halves in
        2) echo '{"reward": 1.0}' ;;
        1) echo '{"reward": 0.5}' ;;
        *) echo '{"reward": 0.0}' ;;
    esac > /logs/verifier/reward.json
    exit 0
}
