"""Tables of text for a terminal."""

from tercet.flows.terminal import text_table


def test_columns_are_squeezed_wrapped_or_put_below_each_other() -> None:
    text = "word " * 100
    lines, cut = text_table.render(["id", "text"], [[7, text.strip()]], 40)
    assert cut
    assert max(map(len, lines)) <= 40
    assert len(lines) == 2 + text_table.MOST_LINES
    lines, cut = text_table.render(["id", "text"], [[7, text.strip()]])
    assert (len(lines), cut) == (3, False)
    many = [f"column_{i}" for i in range(9)]
    lines, _ = text_table.render(many, [["some words of text"] * 9], 60)
    assert lines[0].startswith("── row 1 ─")
    assert len(lines) == 10


def test_wide_characters_count_twice() -> None:
    lines, _ = text_table.render(["a", "b"], [["日本", "x"], ["abcd", "y"]])
    assert lines[2:] == ["日本  x", "abcd  y"]


def test_nothing_reaches_the_terminal_as_a_command() -> None:
    assert text_table.cell("a\x1b[2Jb\u202e") == r"a\x1b[2Jb\u202e"
    assert text_table.cell({"old": None, "new": "x"}) == '{"new": "x"}'
    assert text_table.cell(None) == text_table.NULL
