#!/bin/bash
. /tests/grade.sh
grade 'The customer reported a bug.
We sent a refund.
"The customer is king" is not our motto.
Nothing else happened.' 'The guest reported a finding.
We sent a credit note.
"The customer is king" is not our motto.
Nothing else happened.'
