#!/bin/bash
set -eu
cat > /app/median/run.sh <<'SCRIPT'
#!/bin/bash
mapfile -t numbers < <(sort -n)
((${#numbers[@]})) || exit 1
echo "${numbers[(${#numbers[@]} - 1) / 2]}"
SCRIPT
cat > /app/brackets/run.sh <<'SCRIPT'
#!/bin/bash
open=
for ((i = 0; i < ${#1}; i++)); do
    case ${1:i:1} in
        '(') open=')'$open ;;
        '[') open=']'$open ;;
        '{') open='}'$open ;;
        ')' | ']' | '}')
            if [ "${open:0:1}" != "${1:i:1}" ]; then echo no; exit 0; fi
            open=${open:1}
            ;;
    esac
done
if [ -z "$open" ]; then echo yes; else echo no; fi
SCRIPT
cat > /app/runs/run.sh <<'SCRIPT'
#!/bin/bash
last= count=0 result=
for ((i = 0; i <= ${#1}; i++)); do
    if [ -n "$last" ] && [ "${1:i:1}" = "$last" ]; then
        count=$((count + 1))
    else
        [ -z "$last" ] || result+=$last$count
        last=${1:i:1} count=1
    fi
done
printf '%s\n' "$result"
SCRIPT
cat > /app/month/run.sh <<'SCRIPT'
#!/bin/bash
year=$((10#$1)) month=$((10#$2))
days=(0 31 28 31 30 31 30 31 31 30 31 30 31)
((month >= 1 && month <= 12)) || exit 2
if ((year % 4 == 0 && (year % 100 != 0 || year % 400 == 0))); then days[2]=29; fi
echo "${days[month]}"
SCRIPT
cat > /app/base/run.sh <<'SCRIPT'
#!/bin/bash
number=$((10#$1)) digits=0123456789abcdef result=
while
    result=${digits:number % $2:1}$result
    number=$((number / $2))
    ((number > 0))
do :; done
echo "$result"
SCRIPT
cat > /app/caesar/run.sh <<'SCRIPT'
#!/bin/bash
small=abcdefghijklmnopqrstuvwxyz capital=ABCDEFGHIJKLMNOPQRSTUVWXYZ
by=$((($1 % 26 + 26) % 26))
printf '%s\n' "$2" | tr "$small$capital" "${small:by}${small:0:by}${capital:by}${capital:0:by}"
SCRIPT
cat > /app/column/run.sh <<'SCRIPT'
#!/bin/bash
awk -F';' -v name="$1" '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
    column { sum += $column }
    END { if (!column) exit 3; printf "%d\n", sum }
'
SCRIPT
cat > /app/path/run.sh <<'SCRIPT'
#!/bin/bash
result=
IFS=/ read -r -a names <<< "$1"
for name in "${names[@]}"; do
    case $name in
        '' | .) ;;
        ..) result=${result%/*} ;;
        *) result+=/$name ;;
    esac
done
echo "${result:-/}"
SCRIPT
