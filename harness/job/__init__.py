"""A job: one agent on a set of tasks, some attempts each. Planned, run, resumed, summed up."""
