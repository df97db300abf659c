"""Prompt files: what is refused before anything is asked, and what rendering may do."""

from pathlib import Path

import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.models.prompted.templates import load, prompt_path, render


def written(folder: Path, text: str) -> Path:
    path = folder / "own.jinja"
    path.write_text(text, encoding="utf-8")
    return path


def rendered(folder: Path, text: str, **values: object) -> str:
    return render(load(written(folder, text), list(values)), values)


def test_a_users_own_file(tmp_path: Path) -> None:
    text = "\ufeffSwap {{ old }} for {{ new }}:\n{{ sentence }}\n\n"
    found = rendered(tmp_path, text, old="cat", new="dog", sentence="The cat <b>sat</b> & ran.")
    assert found == "Swap cat for dog:\nThe cat <b>sat</b> & ran."


def test_values_are_never_templates(tmp_path: Path) -> None:
    sentence = "{{ 7 * 6 }} {% raw %} {{ sentence.__class__ }}"
    assert rendered(tmp_path, "Say: {{ sentence }}", sentence=sentence) == f"Say: {sentence}"


@pytest.mark.parametrize(
    ("text", "kind", "names"),
    [
        ("a\n{{ sentense }} {{ sentence }}", "unknown_name", ("line 2", "sentense", "sentence")),
        ("{% if 0 %}{{ nowhere }}{% endif %}{{ old }}", "unknown_name", ("line 1", "nowhere")),
        ("{{ old }} {{ lipsum() }}", "unknown_name", ("lipsum",)),
        ("a\n{{ sentence", "unreadable", ("line 2",)),
        ("a\n\n{{ old | shout }}", "unreadable", ("line 3", "shout")),
        ("{{ [old] | random }}", "unreadable", ("random",)),
        ("{{ old }}\n{{ '\\ud800' }}", "unreadable", ("line 2",)),
        ("{{ " + "(" * 3000 + "old" + ")" * 3000 + " }}", "unreadable", ()),
        ("{{ old }} {% include '/etc/passwd' %}", "bad_value", ()),
        ("Say something.", "no_rows", ("old", "sentence")),
    ],
)
def test_what_no_prompt_file_is(
    tmp_path: Path, text: str, kind: ErrorKind, names: tuple[str, ...]
) -> None:
    path = written(tmp_path, text)
    with fails(kind, path, *names):
        load(path, ["sentence", "old"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with fails("missing_file", "nowhere"):
        load(tmp_path / "nowhere", ["sentence"])
    latin = tmp_path / "latin.jinja"
    latin.write_bytes("Sag\nüber {{ sentence }}".encode("latin-1"))
    with fails("unreadable", latin, "line 2"):
        load(latin, ["sentence"])


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }} {{ sentence }}",
        "{{ sentence | attr('__class__') }}",
        "{{ '{0.__class__}'.format(sentence) }}",
        "{{ self._TemplateReference__context }} {{ sentence }}",
        "{{ sentence }} {{ range.__init__.__globals__ }}",
        "{{ listed.append(sentence) }}",
        "{{ sentence }}{% for i in range(1000000000) %}x{% endfor %}",
        # What fails, and a value that is missing.
        "{{ sentence }}{{ 1 // 0 }}",
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
    template = load(written(tmp_path, "Say: {{ sentence }}"), ["sentence"])
    with fails("unreadable", "own.jinja"):
        render(template, {"sentence": "half \ud83d"})


def test_the_prompt_for_extraction_lists_what_is_closed() -> None:
    values = {"categories": ["history", "nature"], "types": ["person", "place"], "sentence": "A."}
    prompt = render(load(prompt_path("extract"), list(values)), values)
    assert "history, nature" in prompt
    assert "person, place" in prompt
