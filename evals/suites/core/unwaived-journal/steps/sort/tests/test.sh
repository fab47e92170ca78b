#!/bin/bash
. /tests/grade.sh
grade 'fruits.txt 4 -> 6
nuts.txt 0 -> 3
fruits.txt 6 -> 4
herbs.txt 4 -> 3
nuts.txt 3 -> 3' \
    fruits.txt 'apple
pear
plum
quince' \
    nuts.txt 'almond
hazelnut
walnut' \
    herbs.txt 'sage
thyme
mint'
