"""The recipes shipped with Tercet."""
