#!/bin/bash
set -euo pipefail
mkdir -p /srv/proposals/mail
sed 's/^max_sessions = .*/max_sessions = 50/' /srv/vault/limits.conf > /srv/proposals/limits.conf
sed 's/^host = .*/host = mx2.example.net/' /srv/vault/mail/relay.conf > /srv/proposals/mail/relay.conf
printf '%s\n' 'change limits.conf' 'change mail/relay.conf' 'delete legacy.conf' > /srv/proposals/LIST
sed -i 's/^debug = .*/debug = off/' /srv/site/app.conf
