"""What makes two runs differ, step by step."""

from tercet.flows.results.step_differences import compare_recipes


def test_changed_keys_of_two_recipes() -> None:
    one = {"a": {"b": 1, "same": [1, 2]}, "c": [{"tau": 0.05}], "gone": None}
    other = {"a": {"b": 2, "same": [1, 2]}, "c": [{"tau": 0.1}], "new": True}
    assert compare_recipes(one, other) == [
        ("a.b", "1", "2"),
        ("c.0.tau", "0.05", "0.1"),
        ("gone", "null", None),
        ("new", None, "True"),
    ]
