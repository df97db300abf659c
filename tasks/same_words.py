"""When two texts count as the same: case, punctuation and white space are ignored."""


def same_words(column: str) -> str:
    """SQL for the text without them; empty where it is made of nothing else."""
    return rf"trim(regexp_replace(lower({column}), '[^\p{{L}}\p{{N}}]+', ' ', 'g'))"
