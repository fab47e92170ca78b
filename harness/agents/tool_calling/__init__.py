"""An agent that works with tools through any chat model: one loop, and a file for each thing that can end it."""
