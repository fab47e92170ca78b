"""What agents speak: each dialect turns requests into chat completions, and answers back into its own form."""
