"""The commands of this package, one module each; the first line of a module is its help text."""
