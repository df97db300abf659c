"""A misspelt name is told with the one that was meant."""

from tercet.models.errors import suggest


def test_the_nearest_name_is_told_where_one_is_near() -> None:
    assert suggest("cutof", ["cutoff", "negation"]) == "; the nearest is 'cutoff'"
    assert suggest("x", ["cutoff", "negation"]) == ""
