#!/bin/bash
# A function, so that the whole script is read before any program of the agent's runs.
begin() {
    PATH=/usr/bin:/bin
    echo 0 > /logs/verifier/reward.txt
    there=" $(echo /proc/[0-9]*) "
    work=$(mktemp -d)
    # As nobody where that can be done; nothing of the tests lies around while a program of the agent's runs.
    nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs)
    "${nobody[@]}" true 2> /dev/null || nobody=()
    rm -rf /tests/*
    chmod -R a+rX /app
}

jail() { # SECONDS COMMAND...: a clean environment and a deadline
    timeout -k 1 "$1" "${nobody[@]}" env -i PATH=/usr/bin:/bin "${@:2}" 2> /dev/null
}

sweep() { # End what a program left running, before it can see what would have been right.
    local process round
    for round in 1 2 3; do
        for process in /proc/[0-9]*; do
            [[ $there == *" $process "* ]] || kill -9 "${process#/proc/}" 2> /dev/null
        done
    done
}

# Calls as FILE|SECTION|KEY|EXIT|VALUE.
calls='main|global|name|0|demo
main|GLOBAL|Name|0|demo
main|server|host|0|b.example
main|server|port|0|8080
main|server|url|0|http://x/?a=b;c#d
main|server|empty|0|
main|server|flags|0|-v -x
main|server|fresh|0|first
main|server|filled|0|only
main|server|greeting|0|  say "hi" \ now  
main|server|half|0|"open
main|server|lone|0|"
main|server|none|0|
main|server|raw|0|a\\b
main|server|list|0|one two words three
main|server|Tab|0|by tabs
main|my-app.v2|key_1.x|0|yes
main|my-app.v2|eq|0|= =
main|server|later|0|here
main|server|host.name|1|
main|client|host|1|
main|server|name|1|
main|nowhere|x|1|
main|server|hidden|1|
bad-line|a|x|2|
bad-section|a|x|2|
bad-key|a|x|2|
absent|a|x|2|'

configurations() {
    printf '%s\n' '# a comment' 'name = demo' '  [Server]  ' '; hidden = 1' 'host=a.example' 'HOST =  b.example  ' \
        $'\tport\t=\t8080' 'url = http://x/?a=b;c#d' 'empty =' 'flags = -v' 'Flags += -x' 'fresh += first' 'filled =' \
        'filled += only' 'greeting = "  say \"hi\" \\ now  "' 'half = "open' 'lone = "' 'none = ""' 'raw = a\\b' '' \
        'list = one' 'list += "two words"' 'list+=three' $'tab = by\ttabs' '[my-app.v2]' 'Key_1.X = yes' 'eq = = =' \
        '[SERVER]' 'later = here' > "$work/main"
    sed -i 's/by\ttabs/by tabs/' "$work/main"
    printf '[a]\nx = 1\njust words\n' > "$work/bad-line"
    printf 'x = 1\n[a]\nx = 1\n[b b]\n' > "$work/bad-section"
    printf '[a]\nx = 1\nsome key = 2\n' > "$work/bad-key"
    chmod 755 "$work"
}

main() {
    local file section key code value number=0 good=0 plain=0 refused=0 score
    begin
    configurations
    while IFS='|' read -r file section key code value; do
        number=$((number + 1))
        jail 5 perl /app/setting.pl "$work/$file" "$section" "$key" < /dev/null > "$work/$number.out"
        status[number]=$?
    done <<< "$calls"
    sweep
    number=0
    while IFS='|' read -r file section key code value; do
        number=$((number + 1))
        if [ "$code" = 0 ]; then
            plain=$((plain + 1))
            value+=$'\n'
        fi
        if [ "${status[number]}" = "$code" ] && cmp -s <(head -c 10000 "$work/$number.out") <(printf %s "$value"); then
            if [ "$code" = 0 ]; then good=$((good + 1)); else refused=$((refused + 1)); fi
        else
            echo "wrong for $file $section $key"
        fi
    done <<< "$calls"
    # What only ever refuses is right about those by accident.
    [ $((good * 3)) -lt "$plain" ] && refused=0
    score=$(((good + refused) * 100 / number))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
