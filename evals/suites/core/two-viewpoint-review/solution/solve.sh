#!/bin/bash
set -eu
mkdir -p /app/reviews
cat > /app/reviews/finance.csv <<'END'
P01,5,accept
P02,6,accept
P03,8,accept
P04,0,reject
P05,8,accept
P06,1,reject
P07,10,accept
P08,5,accept
P09,5,accept
P10,4,reject
P11,4,reject
P12,4,reject
END
cat > /app/reviews/operations.csv <<'END'
P01,3,reject
P02,4,reject
P03,1,reject
P04,8,accept
P05,8,accept
P06,4,reject
P07,3,reject
P08,8,accept
P09,3,reject
P10,8,accept
P11,1,reject
P12,3,reject
END
cat > /app/decisions.csv <<'END'
P01,defer
P02,defer
P03,defer
P04,decline
P05,approve
P06,decline
P07,approve
P08,approve
P09,defer
P10,approve
P11,decline
P12,decline
END
