#!/bin/bash
# Usage: slugify.sh TITLE
# Prints TITLE as a slug and exits 0; exits 1 and prints nothing on stdout if no letter or digit is in it.
title=$1
slug=$(echo $title | tr 'A-Z' 'a-z' | sed 's/[^a-z0-9]/-/g')
echo "$slug"
