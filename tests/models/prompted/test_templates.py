"""Prompt files: what is refused before anything is asked, and what rendering may do."""

import time
from pathlib import Path

import pytest

from tercet.models.llm.errors import Unusable
from tercet.models.prompted import templates
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
        (
            "a\n{{ sentense }} {{ sentence }}",
            "line 2: unknown variable 'sentense'; known are old, ",
        ),
        ("{{ old }}\n\n{{ b }}\n{{ a }}", "line 3: unknown variable 'b'"),
        ("{% if 0 %}{{ nowhere }}{% endif %}{{ old }}", "line 1: unknown variable 'nowhere'"),
        ("{% for w in old %}{{ w }}{% endfor %}\n{{ w }}", "unknown variable 'w'"),
        ("a\n{{ sentence", "line 2: unexpected end of template"),
        ("{% if old %}\n{{ old }}", "line 2: Unexpected end of template"),
        ("a\n\n{{ old | shout }}", "line 3: No filter named 'shout'"),
        ("{{ [old] | random }}", "No filter named 'random'"),
        ("{{ old }} {{ lipsum() }}", "unknown variable 'lipsum'"),
        ("{{ old }} {% include '/etc/passwd' %}", "names another file"),
        ("{% extends old %}", "names another file"),
        ("{{ old }}\n{{ '\\ud800' }}", "line 2: an escape there is half a character"),
        ("Say something.", "names no variable"),
        ("", "names no variable"),
        ("{{ " + "(" * 3000 + "old" + ")" * 3000 + " }}", "too deeply nested"),
    ],
)
def test_what_no_prompt_file_is(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Unusable) as raised:
        load(path, ["sentence", "old"])
    message = str(raised.value)
    assert said in message
    assert str(path) in message
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"there is no prompt file .*nowhere\.jinja"):
        load(tmp_path / "nowhere.jinja", ["sentence"])
    with pytest.raises(Unusable, match="cannot be read"):
        load(tmp_path, ["sentence"])
    latin = tmp_path / "latin.jinja"
    latin.write_bytes("Sag\nüber {{ sentence }}".encode("latin-1"))
    with pytest.raises(Unusable, match="line 2: not UTF-8"):
        load(latin, ["sentence"])


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
    ],
)
def test_the_sandbox_lets_nothing_out(tmp_path: Path, text: str) -> None:
    template = load(written(tmp_path, text), ["sentence", "listed"])
    listed: list[str] = []
    with pytest.raises(
        Unusable, match=r"own\.jinja, line 1: cannot be rendered: .*; mend it there"
    ):
        render(template, {"sentence": "s", "listed": listed})
    assert listed == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ sentence }}\n\n{{ 1 // 0 }}", "line 3: cannot be rendered: integer division"),
        ("a\n{{ sentence | round }}", "line 2: cannot be rendered"),
        ("{{ sentence.words }}", "'str object' has no attribute 'words'"),
    ],
)
def test_a_failing_expression_is_named(tmp_path: Path, text: str, said: str) -> None:
    template = load(written(tmp_path, text), ["sentence"])
    with pytest.raises(Unusable) as raised:
        render(template, {"sentence": "s"})
    assert said in str(raised.value)


def test_what_is_no_utf8_is_never_a_prompt(tmp_path: Path) -> None:
    template = load(written(tmp_path, "Say: {{ sentence }} {{ '\\U0001F600' }}"), ["sentence"])
    assert render(template, {"sentence": "ä"}) == "Say: ä \U0001f600"
    with pytest.raises(Unusable, match=r"own\.jinja: cannot be rendered: .*surrogates"):
        render(template, {"sentence": "half \ud83d"})


def test_a_value_that_is_missing_is_no_empty_text(tmp_path: Path) -> None:
    template = load(written(tmp_path, "{{ old }}: {{ sentence }}"), ["sentence", "old"])
    with pytest.raises(Unusable, match="'old' is undefined"):
        render(template, {"sentence": "s"})


def test_the_prompt_for_extraction_lists_what_is_closed() -> None:
    values = {"categories": ["history", "nature"], "types": ["person", "place"]}
    template = load(prompt_path("extract"), [*values, "sentence"])
    first = render(template, values | {"sentence": "The dog ate 3 apples."})
    second = render(template, values | {"sentence": "A cat."})
    assert "one of: history, nature." in first
    assert "one of: person, place." in first
    for key in ("category", "entities", "quantities", "text", "type", "value", "unit", "counts"):
        assert f'"{key}"' in first
    assert first.endswith("\nSentence: The dog ate 3 apples.")
    assert first.removesuffix("The dog ate 3 apples.") == second.removesuffix("A cat.")


def test_rendering_is_quick() -> None:
    template = load(prompt_path("rewrite"), ["sentence"])
    # Of this thread: that the machine is busy with others does not count.
    start = time.thread_time()
    for _ in range(4000):
        render(template, {"sentence": "The dog carried three apples."})
    assert time.thread_time() - start < 2  # 100,000 a second were measured


def test_our_own_files_are_all_there() -> None:
    names = {path.stem for path in prompt_path("rewrite").parent.glob("*.jinja")}
    assert names == {
        *("rewrite", "paraphrase", "precede", "from_knowledge", "antisense"),
        *("entity_revision", "quantity_revision", "extract", "entailment", "contradiction"),
        "question",
    }
    assert templates.prompt_path("extract").is_file()
