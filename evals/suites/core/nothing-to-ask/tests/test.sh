#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
asked() { # how many questions the user was asked, by the harness's account; nothing if there is none
    # Quotes within a question are escaped there, so no question can pass for the number.
    [ -f /tests/user.json ] && grep -o '"questions": *[0-9][0-9]*' /tests/user.json | head -n 1 | tr -dc 0-9
}

main() {
    PATH=/usr/bin:/bin
    local score=0 questions
    local sums='0a44f068f48293f8b1d68c668b2a333308d701c6bd55b55d192641b25de8b09e  2025-04-21-narvik-1.txt
402e9bcc831728ce5113a577454e9337662b7635eb5418c57045a071183fce72  2025-04-20-narvik-1.txt
4bdf388f6eac735ddf6e6fa78fcabfabea71dcf6cf689897bb64c26fbd3e6762  2025-04-19-lofoten-2.txt
7f88e41b484fe754b2e7cde8c3dc7359ab8862321750431c5d3f77a73365492d  2025-04-21-narvik-2.txt
93bb2980e9a2aa3e165ea8041207f7fa42fb29c8e0c1f782624e02acdacd744d  2025-04-19-lofoten-1.txt
dcee6b59a9accc0a8e50949c1f1836ed9cfe38321618fc2994cf06afbc499592  2025-04-23-kiruna-1.txt'
    local names='2025-04-19-lofoten-1.txt
2025-04-19-lofoten-2.txt
2025-04-20-narvik-1.txt
2025-04-21-narvik-1.txt
2025-04-21-narvik-2.txt
2025-04-23-kiruna-1.txt'
    if [ ! -L /app/captions ] && [ "$(find /app/captions -mindepth 1 -printf '%f\n' | sort)" = "$names" ] \
        && [ -z "$(find /app/captions -mindepth 1 ! -type f)" ] \
        && (cd /app/captions && sha256sum --check --strict --quiet <<< "$sums"); then
        score=100
    fi
    # A share is taken for each question more than needed; without the harness's account of them there is no reward.
    questions=$(asked)
    if [ -z "$questions" ]; then
        echo 'no account of the questions'
        score=0
    elif [ "$questions" -gt 0 ]; then
        echo "$questions questions, where none would do"
        score=$((score - questions * 50))
    fi
    [ "$score" -gt 0 ] || score=0
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
