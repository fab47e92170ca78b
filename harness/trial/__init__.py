"""One trial: an agent, a task, a sandbox, a verdict, a record."""
