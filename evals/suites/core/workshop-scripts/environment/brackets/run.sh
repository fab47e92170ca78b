#!/bin/bash
open=0
for ((i = 0; i < ${#1}; i++)); do
    case ${1:i:1} in
        '(' | '[' | '{') open=$((open + 1)) ;;
        ')' | ']' | '}') open=$((open - 1)) ;;
    esac
done
[ $open = 0 ] && echo yes || echo no
