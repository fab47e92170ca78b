#!/bin/bash
set -eu
printf '%s\n' room=Kiefer date=2025-04-23 start=17:30 end=19:30 cost_centre=KS-3317 > /app/booking.txt
