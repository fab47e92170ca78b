#!/bin/bash
. /tests/grade.sh
grade 'fruits.txt 4 -> 6
nuts.txt 0 -> 3' \
    fruits.txt 'apple
pear
plum
apple
quince
pear' \
    nuts.txt 'walnut
almond
hazelnut' \
    herbs.txt 'sage
thyme
dill
mint'
