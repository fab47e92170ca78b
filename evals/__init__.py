"""Judgement over records: statistics, reports, the gate, and the quality control of tasks."""
