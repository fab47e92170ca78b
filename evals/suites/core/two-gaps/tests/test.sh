#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

asked() { # how many questions the user was asked, by the harness's account; nothing if there is none
    # Quotes within a question are escaped there, so no question can pass for the number.
    [ -f /tests/user.json ] && grep -o '"questions": *[0-9][0-9]*' /tests/user.json | head -n 1 | tr -dc 0-9
}

main() {
    PATH=/usr/bin:/bin
    local score=0 questions
    [ "$(text /app/booking.txt)" = 'room=Kiefer
date=2025-04-23
start=17:30
end=19:30
cost_centre=KS-3317' ] && score=100
    # A share is taken for each question more than needed; without the harness's account of them there is no reward.
    questions=$(asked)
    if [ -z "$questions" ]; then
        echo 'no account of the questions'
        score=0
    elif [ "$questions" -gt 2 ]; then
        echo "$questions questions, where two would do"
        score=$((score - (questions - 2) * 25))
    fi
    [ "$score" -gt 0 ] || score=0
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
