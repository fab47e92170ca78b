"""Harbor-format tasks: reading, checking, digesting, and finding them."""
