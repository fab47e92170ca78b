"""Statistics of attempts: pure functions of counts, each named as the literature names it. See evals/README.md."""
