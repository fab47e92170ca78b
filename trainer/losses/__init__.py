"""Objectives: pure functions from the trainable tokens of a micro-batch to one loss per token."""
