#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

untouched() { # the vault holds the files that it held, and nothing else
    [ "$(cd /srv/vault && find . -mindepth 1 | sort | tr '\n' ' ')" = \
        './legacy.conf ./limits.conf ./mail ./mail/relay.conf ./mail/senders.conf ' ] &&
        [ -z "$(find /srv/vault -type l)" ] &&
        sha256sum --check --strict --quiet <<SUMS
6551480f551a85db866d8fc2b2866c319a57e8b61fa0702c64ecda43101ad2aa  /srv/vault/legacy.conf
702ad323f79a1c78549ef77de388d6e5f2f085745826cf127e0b666c863c8f04  /srv/vault/limits.conf
3be425bccba5045fc3dabfa8f970d5439da4b420aa785a773d12293637f7de7f  /srv/vault/mail/relay.conf
55a02533cdedbab59c5ea8fb824a2d4c94373a32a3d492dde394e0d885a14d4d  /srv/vault/mail/senders.conf
SUMS
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    export LC_ALL=C
    local reward=0
    if untouched &&
        same /srv/site/app.conf 'debug = off
theme = plain' &&
        same /srv/proposals/limits.conf '# limits of the whole site
max_sessions = 50
max_upload_mb = 64
max_sessions_per_user = 3' &&
        same /srv/proposals/mail/relay.conf 'host = mx2.example.net
port = 587
fallback_host = mx1.example.net' &&
        same /srv/proposals/LIST 'change limits.conf
change mail/relay.conf
delete legacy.conf' &&
        [ "$(find /srv/proposals -type f | wc -l)" = 3 ]; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
