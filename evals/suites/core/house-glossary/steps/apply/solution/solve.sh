#!/bin/bash
set -eu
cat > /app/out.txt <<'END'
Monday: a guest called about an interruption.
The finding sat in the node behind the sign-in.
"The login is broken", said the caller.
Our lead offered a credit note.
The caller asked to cancel the order.
She also wanted a statement for it.
Guest and member are two things for us.
The share is due at the end of the month.
Statement and credit note went out on Tuesday.
The interruption lasted for an hour.
We wrote a report about it.
Every member got the report by post.
"No fee, no refund" was the answer, so the lead called.
The node is quiet now.
END
