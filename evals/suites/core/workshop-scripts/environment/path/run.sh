#!/bin/bash
result=$1
result=${result//\/.\//\/}
result=${result//\/\//\/}
echo "${result%/}"
