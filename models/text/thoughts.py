"""Thoughts of a language model before its answer, as patterns of RE2 and of `re`."""

_TAG = r"(?:seed:)?(?:think|thinking|thought|reasoning)>"
_ENDS = rf"</{_TAG}|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
THOUGHTS = rf"(?s)^(?:.*(?:{_ENDS})|analysis.*assistantfinal)"
"""A thought that is marked and comes to an end."""
OPEN_THOUGHT = rf"^\s*(?:<{_TAG}|\[THINK\]|◁think▷|<\|channel\|>analysis)"
