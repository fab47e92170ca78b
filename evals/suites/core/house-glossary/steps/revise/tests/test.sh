#!/bin/bash
. /tests/grade.sh
grade 'Every manager checks the fee.
Cancel the login by noon.
The weather was fine.' 'Every lead checks the share.
Cancel the sign-in by noon.
The weather was fine.'
