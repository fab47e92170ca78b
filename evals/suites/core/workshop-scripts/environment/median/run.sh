#!/bin/bash
mapfile -t numbers < <(sort)
((${#numbers[@]})) || exit 1
echo "${numbers[${#numbers[@]} / 2]}"
