"""What is trained: causal language models by path, and a tiny one built here, all behind one protocol."""
