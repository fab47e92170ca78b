#!/bin/bash
last= count=0 result=
for ((i = 0; i < ${#1}; i++)); do
    if [ ${1:i:1} = "$last" ]; then
        count=$((count + 1))
    else
        result+=$last$count
        last=${1:i:1} count=1
    fi
done
echo $result
