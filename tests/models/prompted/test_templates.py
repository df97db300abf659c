"""Prompt files and worked examples: what is refused before anything is asked, and what serves."""

import json
from pathlib import Path
from typing import Any

import pytest
from failures import fails

from tercet.errors import ErrorKind
from tercet.models.prompted.methods import METHODS, check_shots
from tercet.models.prompted.templates import (
    Example,
    load,
    load_shots,
    prompt_path,
    render,
    shots_path,
)


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


KEPT = {
    "sentence": "The bell of the tower rang twice.",
    "answer": "Twice there was the sound of a bell.",
}


def ours(name: str, **params: Any) -> list[Example]:
    method = METHODS[name]
    template = load(prompt_path(method.prompt or ""), method.variables)
    return load_shots(shots_path(name), template, method.params(**params).model_dump())


def of(folder: Path, *lines: Any, prompt: str = "Say {{ sentence }}", **own: Any) -> list[Example]:
    (folder / "own.jinja").write_text(prompt)
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    (folder / "own.jsonl").write_text(text, encoding="utf-8")
    template = load(folder / "own.jinja", ("sentence", "edit", "old"))
    return load_shots(folder / "own.jsonl", template, own)


@pytest.mark.parametrize("name", [n for n, one in METHODS.items() if one.each == "sentences"])
def test_our_own_shots_pass_the_checks_of_their_method(name: str) -> None:
    method = METHODS[name]
    forms = [{}] if "edit" not in method.params.model_fields else [{"edit": "rewrite"}, {}]
    for params in forms:
        found = ours(name, **params)
        assert len(found) == 3
        check_shots(found, method.checks)
        for example in found:
            assert example.values.keys() == set(method.variables)
            assert example.shot.prompt.endswith(f"\nSentence: {example.values['sentence']}")
            assert example.shot.answer != example.values["sentence"]
    assert len({example.shot.answer for params in forms for example in ours(name, **params)}) == (
        3 * len(forms)
    )


def test_parameters_stand_for_what_a_line_leaves_out(tmp_path: Path) -> None:
    prompt = "{{ edit }}: {{ sentence }}"
    lines = [KEPT, {**KEPT, "edit": "minimal"}, {**KEPT, "edit": "rewrite"}, ""]
    found = of(tmp_path, *lines, prompt=prompt, edit="rewrite")
    assert [example.shot.prompt for example in found] == [
        "rewrite: The bell of the tower rang twice."
    ] * 2
    assert [example.place.rpartition(" ")[2] for example in found] == ["1", "3"]


@pytest.mark.parametrize(
    "line", ["no JSON", ["a"], {"sentence": "A bell."}, {"answer": "A bell."}], ids=repr
)
def test_a_line_that_is_no_example_is_told(tmp_path: Path, line: Any) -> None:
    with fails("bad_row", "own.jsonl", "line 2"):
        of(tmp_path, KEPT, line)


def test_a_file_without_examples_is_told(tmp_path: Path) -> None:
    with fails("unknown_name", "own"):
        of(tmp_path, {**KEPT, "edit": "minimal"}, edit="rewrite")
    template = load(tmp_path / "own.jinja", ("sentence",))
    with fails("missing_file", "none"):
        load_shots(tmp_path / "none.jsonl", template, {})
    (tmp_path / "own.jsonl").write_bytes("ä".encode("latin-1"))
    with fails("unreadable", "UTF-8"):
        load_shots(tmp_path / "own.jsonl", template, {})


def test_an_answer_that_parse_would_refuse_is_told(tmp_path: Path) -> None:
    check_shots(of(tmp_path, KEPT), ["whole_source"])
    copied = {**KEPT, "answer": f"So it was. {KEPT['sentence']}"}
    check_shots(of(tmp_path, KEPT, copied), [])
    gong = {"old": "bell", "new": "gong", "answer": "The horn of the tower sounded twice."}
    for line, checks, reason in (
        (copied, ["whole_source"], "echo"),
        ({**KEPT, "answer": "the bell of the tower rang twice"}, [], "same_as_source"),
        (KEPT | gong, ["new_entity"], "missing_entity"),
    ):
        with fails("bad_row", "line 2", reason):
            check_shots(of(tmp_path, KEPT, line), checks)


@pytest.mark.parametrize(
    ("line", "checks"),
    [
        ({"old": 3, "new": 5, "answer": "The mill has 5 wheels."}, ["new_number"]),
        ({"sentence": "Heavy\u2028rain fell.", "answer": "It rained heavily."}, []),
        ({"entities": ["a"], "new": ["x"], "answer": "It rained heavily."}, []),
    ],
)
def test_a_variable_need_be_no_text(tmp_path: Path, line: dict[str, Any], checks: Any) -> None:
    whole = {"sentence": "The mill has 3 wheels.", **line}
    (example,) = of(tmp_path, json.dumps(whole, ensure_ascii=False))
    assert example.shot.prompt == f"Say {whole['sentence']}"
    assert example.shot.answer == whole["answer"]
    check_shots([example], checks)
