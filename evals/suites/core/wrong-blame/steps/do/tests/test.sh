#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
right() {
    local table=/app/var/table.tsv
    [ -f "$table" ] && [ ! -L "$table" ] && [ ! -L /app/spool ] && [ ! -L /app/var ] || { echo 'no table'; return 1; }
    [ "$(sha256sum < /app/import.sh)" = 'ed2064c0f8904db49e8df93f7e6c739699e7ef260efaca3735a51f67c26e9e99  -' ] || { echo 'import.sh was changed'; return 1; }
    printf '%s\t%s\n' 10 chair 11 table 30 desk 31 lamp 40 stool 41 couch 42 sofa 50 rug > "$work/rows"
    { cat "$work/rows"; echo '# rows 8'; } | cmp - "$table" || return 1
    [ -z "$(ls -A /app/spool)" ] || { echo 'the spool is not empty'; return 1; }
    # The script is the one that came with the task, so it can be run here.
    printf '61\tshelf\n60\tvase\n' > /app/spool/batch-05.tsv
    timeout -k 1 10 env -i PATH=/usr/bin:/bin bash /app/import.sh < /dev/null > /dev/null
    { cat "$work/rows"; printf '%s\t%s\n' 60 vase 61 shelf; echo '# rows 10'; } | cmp - "$table" || return 1
    [ -z "$(ls -A /app/spool)" ] && [ ! -e /app/var/lock ] && [ ! -L /app/var/lock ]
}

main() {
    PATH=/usr/bin:/bin
    local reward=0 work
    work=$(mktemp -d)
    right && reward=1
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
