#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local file=/app/CHANGELOG.md lines=() right=0 wrong=0 line section=
    local expected=(
        'Added|export: write spreadsheets with frozen header rows (#813)'
        'Added|theme: dark colours follow the system (#824)'
        'Added|BREAKING api: remove the endpoint /v1/lists (#829)'
        'Added|import: read calendars in the iCal format (#838)'
        'Added|export: write spreadsheets with a sheet for each folder (#843)'
        'Fixed|login: keep the session when the clock of the client is wrong (#815)'
        'Fixed|export: keep leading zeros of numbers in text columns (#827)'
        'Fixed|print: use light colours on paper (#833)'
        'Fixed|BREAKING api: answer 404 instead of 200 for unknown lists (#836)'
        'Changed|report: render long tables in half the time (#820)'
        'Changed|mail: build messages from templates (#831)'
        'Security|upload: refuse archives with absolute paths (#822) CVE-2031-10441'
        'Security|session: sign cookies with a key of its own (#840) CVE-2031-10502'
    )
    # A link could point at whatever this script happens to hold; only a file of its own counts.
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        mapfile -t -n 1000 lines < <(head -c 100000 "$file" | tr -d '\r\0')
    fi
    declare -A open
    for line in "${expected[@]}"; do open["=$line"]=1; done
    for line in "${lines[@]}"; do
        case $line in
            '') continue ;;
            '## '*) section=${line#'## '}; continue ;;
            '- '*) line="$section|${line#- }" ;;
        esac
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
