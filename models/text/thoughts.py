"""What a language model thought before it answered, as patterns of RE2 and of `re`."""

_TAG = r"(?:seed:)?(?:think|thinking|thought|reasoning)>"
_ENDS = rf"</{_TAG}|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
THOUGHTS = rf"(?s)^(?:.*(?:{_ENDS})|analysis.*assistantfinal)"
"""What was thought before an answer, where it is marked and comes to an end."""
OPEN_THOUGHT = rf"^\s*(?:<{_TAG}|\[THINK\]|◁think▷|<\|channel\|>analysis)"
