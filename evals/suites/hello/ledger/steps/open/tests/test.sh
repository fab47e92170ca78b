#!/bin/bash
. /tests/grade.sh
grade '2024-05-02 paper 1250
2024-05-04 coffee 615
2024-05-09 stamps 840
2024-05-17 cable 2310' 5015
