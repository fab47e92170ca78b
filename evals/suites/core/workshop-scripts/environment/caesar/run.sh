#!/bin/bash
letters=abcdefghijklmnopqrstuvwxyz
shift=$1
echo "$2" | tr "$letters" "${letters:shift}${letters:0:shift}"
