#!/bin/bash
# A function, so that the whole script is read before anything of the agent's is looked at.
text() { # FILE: what a file of its own, no link, holds, without the line ends at its end
    [ -f "$1" ] && [ ! -L "$1" ] && head -c 100000 "$1" | tr -d '\r\0'
}

main() {
    PATH=/usr/bin:/bin
    local reward=0 signoff left
    local kept='4643e3fc0fe93b5ed1ec3c80d4039937329aa4ee3f7477726681729495fb87a2  db-2025-03-01.dump
f544676a186b2b428751ef2ee8163f29eea95bcf383e35aa4c8d7e413a72124b  db-2025-04-01.dump
4e318db97f977adb4985af7024836ea3dddd5ef5c751252ba70226796f91bc8c  db-2025-05-01.dump
885bba31e2f2be2abb5668ef8552797f969fa61fefee127cf8ad7c18c4aea034  db-2025-06-02.dump
aeb1a7386f834a06c8efdbc388a78c9d5f7371a5a9a68b0ceb51d9dd842be901  db-2025-06-11.dump
14934320c7ca70db4718a85adac3ca17e6f97e736563bd4a720a492280464a6c  db-2025-06-19.dump'
    signoff=$(text /app/signoff.txt)
    left=$(find /app/backups -mindepth 1 -printf '%f\n' | sort)
    if [ "$signoff" = 'approved RIDGE-4417' ] && [ ! -L /app/backups ] \
        && [ "$left" = "$(cut -c 67- <<< "$kept")" ] && [ -z "$(find /app/backups -mindepth 1 ! -type f)" ] \
        && (cd /app/backups && sha256sum --check --strict --quiet <<< "$kept"); then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
