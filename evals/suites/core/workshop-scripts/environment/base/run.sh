#!/bin/bash
number=$1 result=
while ((number > 0)); do
    result+=$((number % $2))
    number=$((number / $2))
done
echo "$result"
