"""The two ways in which a language model fails a run."""


class Unusable(ValueError):
    """Something that the user must mend (a path, a prompt file, a missing package): one sentence.

    It is bad input: exit code 2.
    """


class Stopped(Exception):
    """Asking cannot go on (an endpoint that only fails, a ceiling): one sentence.

    What was answered so far is safe, and the same command goes on from there: exit code 1.
    """


class CeilingReached(Stopped):
    """The recipe's ceiling of tokens or money: only a person may raise it."""
