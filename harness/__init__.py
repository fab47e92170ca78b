"""Tasks, agents, trials, jobs, trajectories: runs agents in sandboxes and owns the record of every attempt."""

__version__ = "0.1.0"
