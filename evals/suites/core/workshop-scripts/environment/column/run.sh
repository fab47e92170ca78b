#!/bin/bash
IFS=';' read -r -a names
for i in "${!names[@]}"; do
    [ "${names[i]}" = "$1" ] && column=$i
done
sum=0
while IFS=';' read -r -a fields; do
    sum=$((sum + fields[column]))
done
echo $sum
