"""Chat models: one protocol, an OpenAI-compatible endpoint behind it, and a script that plays fixed replies."""
