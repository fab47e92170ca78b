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

files() { # 5 trial files and their tables
    cat > "$work/1" <<'END'
{"name":"Eve","city":"Oslo","age":50,"note":"x"}
{"name":"Al","city":"Lima","age":2,"note":""}
END
    cat > "$work/1.table" <<'END'
city|name|age|note
Lima|Al|2|
Oslo|Eve|50|x
END
    cat > "$work/2" <<'END'
 {"note" : "a\\b\/c", "x": "city" , "city":"Ur"}
{}

{"city":"Ys","name":null,"age":1e3,"note":false}
END
    cat > "$work/2.table" <<'END'
city|name|age|note
|||
Ur|||a\b/c
Ys||1e3|false
END
    cat > "$work/3" <<'END'
{"name":"quo\"te","city":"two\nlines","note":"tab\there","age":0}
END
    cat > "$work/3.table" <<'END'
city|name|age|note
two lines|quo"te|0|tab here
END
    cat > "$work/4" <<'END'
{"note":"\"name\": \"wrong\", \"city\": \"Wrong\"","name":"right","city":"R","age":-0.5}
{"nick":"name","name":"}{","city":"A:B, C"}
END
    cat > "$work/4.table" <<'END'
city|name|age|note
A:B, C|}{||
R|right|-0.5|"name": "wrong", "city": "Wrong"
END
    cat > "$work/5" <<'END'
{"name":"Zo\u00eb \u0041","city":"K\u00f6ln","note":"\\u0041 \\n \u00df"}
END
    cat > "$work/5.table" <<'END'
city|name|age|note
Köln|Zoë A||\u0041 \n ß
END
}

main() {
    local case right=0 score=0 file=/app/people.txt
    begin
    if [ "$(sha256sum < /app/export.sh)" != 'b031593dc68ee2fe37b2c68ec3f545b11832fe29f9d428c46211a6d0ec900121  -' ]; then
        echo 'export.sh was changed'
        exit 0
    fi
    files
    for case in {1..5}; do
        jail 5 bash /app/export.sh /dev/stdin < "$work/$case" > "$work/$case.out"
    done
    sweep
    for case in {1..5}; do
        if cmp "$work/$case.table" "$work/$case.out"; then right=$((right + 1)); fi
    done
    if [ -f "$file" ] && [ ! -L "$file" ] && cmp "$file" - <<'END'
city|name|age|note
Bern|Di|-1|says: {"city": "Rome"}
Malmö|Bo Lind|41|
Turin|Ada|36|likes "tea"
Turin|Cy, the 2nd|7.5|
END
    then
        score=50
    fi
    score=$((score + right * 10))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
