"""The client of a language model: requests out, answers in, in time."""
