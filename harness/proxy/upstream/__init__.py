"""Where answers come from: an OpenAI-compatible endpoint, several of them, or a chat model in this process."""
