"""What the sandboxes of every cloud share: a channel to one of them, and the care that creating them takes.

A backend of a cloud brings a `Channel` over its SDK (`channel`), a table of failures (`failures`), and a provider that
is made of the pieces here: `sandbox` (the protocol over a channel), `launch` (limits, labels, a shielded creation, the
preparation), `lease` and `retry`. Nothing here imports an SDK.
"""
