"""What is sampled next: how many attempts a task gets, and which finished ones may be trained on."""
