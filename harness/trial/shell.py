"""Shell functions for the scripts that run in sandboxes. What a shell does itself costs no program."""

IS_EMPTY = """is_empty() {
  [ -r "$1" ] && [ -w "$1" ] && [ -x "$1" ] || return 1
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -e "$entry" ] || [ -L "$entry" ]; then return 1; fi
  done
}"""
"""Whether a folder has no entries, and could be read and written to if it had."""
