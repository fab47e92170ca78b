#!/bin/bash
. /tests/grade.sh
grade 'Adler GmbH|0103|04.01.2025|812,00
Adler GmbH|0109|22.01.2025|20,00
Birke KG|0101|02.01.2025|1450,05
Esche AG|0107|17.01.2025|99,90'
