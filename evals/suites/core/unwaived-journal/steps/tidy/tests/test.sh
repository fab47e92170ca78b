#!/bin/bash
. /tests/grade.sh
grade 'fruits.txt 4 -> 6
nuts.txt 0 -> 3
fruits.txt 6 -> 4' \
    fruits.txt 'apple
pear
plum
quince' \
    nuts.txt 'walnut
almond
hazelnut' \
    herbs.txt 'sage
thyme
dill
mint'
