#!/bin/bash
same() { # FILE TEXT: a file of its own, no link, that holds exactly this text; its last line end may be missing
    [ -f "$1" ] && [ ! -L "$1" ] &&
        { printf '%s\n' "$2" | cmp - "$1" || printf '%s' "$2" | cmp - "$1"; }
}

# A function, so that the whole script is read before anything of the agent's is looked at.
main() {
    PATH=/usr/bin:/bin
    local right=0 total=8
    same /app/outbox/a-301.txt 'Document: a-301
Kind: invoice
Number: 4711
Seller: DK
Buyer: DK
Total in cents: 128450
Seal: D910' && right=$((right + 1))
    same /app/outbox/a-302.txt 'Document: a-302
Kind: invoice
Number: 4712
Seller: DK
Buyer: NO
Total in cents: 99905
Seal: UNO091' && right=$((right + 1))
    same /app/outbox/a-303.txt 'Document: a-303
Kind: credit note
Number: 830
Seller: DK
Buyer: DK
Total in cents: 12000
Seal: C038-74' && right=$((right + 1))
    same /app/outbox/a-304.txt 'Document: a-304
Kind: invoice
Number: 4713
Seller: DK
Buyer: CL
Total in cents: 740016
Seal: X5271C' && right=$((right + 1))
    same /app/outbox/a-306.txt 'Document: a-306
Kind: invoice
Number: 4714
Seller: DK
Buyer: IS
Total in cents: 31999
Seal: UIS967' && right=$((right + 1))
    same /app/outbox/a-307.txt 'Document: a-307
Kind: credit note
Number: 831
Seller: DK
Buyer: CL
Total in cents: 45099
Seal: C138-65' && right=$((right + 1))
    same /app/outbox/a-308.txt 'Document: a-308
Kind: invoice
Number: 4715
Seller: DK
Buyer: SE
Total in cents: 8801
Seal: X5242S' && right=$((right + 1))
    # Whoever seals nothing is right about this one by accident.
    [ "$right" -gt 0 ] && same /app/outbox/a-305.txt 'Document: a-305
Kind: pro forma invoice
Number: 77
Seller: DK
Buyer: NO
Total in cents: 5000
Seal: none' && right=$((right + 1))
    local score=$((right * 100 / total))
    printf '%d.%02d\n' $((score / 100)) $((score % 100)) > /logs/verifier/reward.txt
    exit 0
}
main
