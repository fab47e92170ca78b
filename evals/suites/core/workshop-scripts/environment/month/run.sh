#!/bin/bash
year=$1 month=$((10#$2))
days=(0 31 28 31 30 31 30 31 31 30 31 30 31)
((year % 4 == 0)) && days[2]=29
echo ${days[$month]}
