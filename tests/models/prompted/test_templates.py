"""Prompt files: what is refused before anything is asked, and what rendering may do."""

from pathlib import Path

import pytest
from failures import fails

from tercet.models.errors import Unusable
from tercet.models.prompted.templates import load, prompt_path, render


def written(folder: Path, text: str) -> Path:
    path = folder / "own.jinja"
    path.write_text(text, encoding="utf-8")
    return path


def rendered(folder: Path, text: str, **values: object) -> str:
    return render(load(written(folder, text), list(values)), values)


def test_a_users_own_file(tmp_path: Path) -> None:
    text = "Swap {{ old }} for {{ new }}:\n{{ sentence }}\n\n"
    found = rendered(tmp_path, text, old="cat", new="dog", sentence="The cat <b>sat</b> & ran.")
    assert found == "Swap cat for dog:\nThe cat <b>sat</b> & ran."


def test_blocks_leave_no_lines_behind(tmp_path: Path) -> None:
    text = "{% for one in listed %}\n- {{ one }}\n  {% if one == 2 %}\n  (two)\n  {% endif %}\n"
    assert rendered(tmp_path, text + "{% endfor %}", listed=[1, 2]) == "- 1\n- 2\n  (two)\n"


def test_values_are_never_templates(tmp_path: Path) -> None:
    sentence = "{{ 7 * 6 }} {% raw %} {{ sentence.__class__ }}"
    assert rendered(tmp_path, "Say: {{ sentence }}", sentence=sentence) == f"Say: {sentence}"


def test_a_byte_order_mark_is_not_asked(tmp_path: Path) -> None:
    assert rendered(tmp_path, "\ufeffSay {{ sentence }}", sentence="ä") == "Say ä"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n{{ sentense }} {{ sentence }}", "line 2: .*sentense.*old, sentence"),
        ("{{ old }}\n\n{{ b }}\n{{ a }}", "line 3: .*'b'"),
        ("{% if 0 %}{{ nowhere }}{% endif %}{{ old }}", "line 1: .*nowhere"),
        ("{% for w in old %}{{ w }}{% endfor %}\n{{ w }}", "'w'"),
        ("a\n{{ sentence", "line 2"),
        ("{% if old %}\n{{ old }}", "line 2"),
        ("a\n\n{{ old | shout }}", "line 3: .*shout"),
        ("{{ [old] | random }}", "random"),
        ("{{ old }} {{ lipsum() }}", "lipsum"),
        ("{{ old }} {% include '/etc/passwd' %}", "file"),
        ("{% extends old %}", "file"),
        ("{{ old }}\n{{ '\\ud800' }}", "line 2"),
        ("Say something.", "variable"),
        ("", "variable"),
        ("{{ " + "(" * 3000 + "old" + ")" * 3000 + " }}", "nested"),
    ],
)
def test_what_no_prompt_file_is(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Unusable, match=said) as raised:
        load(path, ["sentence", "old"])
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    latin = tmp_path / "latin.jinja"
    latin.write_bytes("Sag\nüber {{ sentence }}".encode("latin-1"))
    for path, said in ((tmp_path / "nowhere", "nowhere"), (tmp_path, "read"), (latin, "line 2")):
        with pytest.raises(Unusable, match=said):
            load(path, ["sentence"])


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }} {{ sentence }}",
        "{{ sentence.__class__.__mro__[1].__subclasses__() }}",
        "{{ sentence | attr('__class__') }}",
        "{{ '{0.__class__}'.format(sentence) }}",
        "{{ self._TemplateReference__context }} {{ sentence }}",
        "{{ sentence }} {{ range.__init__.__globals__ }}",
        "{{ listed.append(sentence) }}",
        "{{ sentence }}{% for i in range(1000000000) %}x{% endfor %}",
        # What fails, and a value that is missing.
        "{{ sentence }}{{ 1 // 0 }}",
        "{{ sentence | round }}",
        "{{ sentence.words }}",
        "{{ old }}",
    ],
)
def test_the_sandbox_lets_nothing_out(tmp_path: Path, text: str) -> None:
    template = load(written(tmp_path, f"a\n{text}"), ["sentence", "listed", "old"])
    listed: list[str] = []
    with fails("unreadable", "own.jinja", "line 2"):
        render(template, {"sentence": "s", "listed": listed})
    assert listed == []


def test_what_is_no_utf8_is_never_a_prompt(tmp_path: Path) -> None:
    template = load(written(tmp_path, "Say: {{ sentence }} {{ '\\U0001F600' }}"), ["sentence"])
    assert render(template, {"sentence": "ä"}) == "Say: ä \U0001f600"
    with fails("unreadable", "own.jinja"):
        render(template, {"sentence": "half \ud83d"})


def test_the_prompt_for_extraction_lists_what_is_closed() -> None:
    values = {"categories": ["history", "nature"], "types": ["person", "place"]}
    template = load(prompt_path("extract"), [*values, "sentence"])
    first = render(template, values | {"sentence": "The dog ate 3 apples."})
    second = render(template, values | {"sentence": "A cat."})
    assert "history, nature" in first
    assert "person, place" in first
    for key in ("category", "entities", "quantities", "text", "type", "value", "unit", "counts"):
        assert f'"{key}"' in first
    assert first.removesuffix("The dog ate 3 apples.") == second.removesuffix("A cat.")
