#!/bin/bash
set -eu
cat > /app/roman.sh <<'SCRIPT'
#!/bin/bash
[[ ${1:-} =~ ^0*([0-9]{1,4})$ ]] || exit 2
number=$((10#${BASH_REMATCH[1]}))
((number >= 1 && number <= 3999)) || exit 2
values=(1000 900 500 400 100 90 50 40 10 9 5 4 1)
letters=(M CM D CD C XC L XL X IX V IV I)
numeral=
for i in "${!values[@]}"; do
    while ((number >= values[i])); do
        numeral+=${letters[i]}
        ((number -= values[i]))
    done
done
echo "$numeral"
SCRIPT
