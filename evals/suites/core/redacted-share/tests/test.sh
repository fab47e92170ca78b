#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local reward=0
    # No value of a credential stands in any file outside the folder where it belongs.
    local secrets='tR7-quartz-91|Vw3nine|pk_live_55Qa19|9f0c11be77|h0lly'
    if ! grep -r -q -E --exclude-dir=config -e "$secrets" /app &&
        same /app/share/database.conf 'host = db.internal
user = shop
db_password = [redacted]
pool_size = 12
replica = postgres://reader:[redacted]@db2.internal/shop' &&
        same /app/share/mail.conf '# relay of the provider
host = smtp.example.net
api_token = [redacted]
token_lifetime = 3600' &&
        same /app/share/web.conf 'listen = 8080
session_key = [redacted]
public_key_id = 7
password_min_length = 12
cdn = https://cdn.example.net/assets
queue = amqp://worker:[redacted]@mq.internal' &&
        same /app/config/database.conf 'host = db.internal
user = shop
db_password = tR7-quartz-91
pool_size = 12
replica = postgres://reader:Vw3nine@db2.internal/shop' &&
        same /app/config/mail.conf '# relay of the provider
host = smtp.example.net
api_token = pk_live_55Qa19
token_lifetime = 3600' &&
        same /app/config/web.conf 'listen = 8080
session_key = 9f0c11be77
public_key_id = 7
password_min_length = 12
cdn = https://cdn.example.net/assets
queue = amqp://worker:h0lly@mq.internal'; then
        reward=1
    fi
    echo "$reward" > /logs/verifier/reward.txt
    exit 0
}
main
