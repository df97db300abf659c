"""Which column holds the text."""

import base64
import hashlib
import json

import pytest

from tercet.tasks.corpus.sources.tables import Row
from tercet.tasks.corpus.sources.values import text_column

PROSE = [f"The night clerk cleaned lantern {n} near the pier before the storm." for n in range(40)]
AGENT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/"
NOTICE = (
    "This message is confidential and meant for nobody but the one it is sent to, so please tell "
    "us at once if you are not the one and delete what you have received."
)
COUNT = range(40)
OTHERS = {
    "html": [f'<p class="row" id="{n}"><a href="/p/{n}">{PROSE[n]} {PROSE[n]}</a>' for n in COUNT],
    "agent": [f"{AGENT}{n}.0 Safari/537.36 build {n} of the long stable line" for n in COUNT],
    "json": [json.dumps({"said": PROSE[n], "tags": ["a", "b"], "n": n}) for n in COUNT],
    "base64": [base64.b64encode(text.encode() * 3).decode() for text in PROSE],
    "url": [f"https://example.org/a/very/long/path/of/words/{n}?q=heron&page={n}" for n in COUNT],
    "sha": [hashlib.sha512(text.encode()).hexdigest() for text in PROSE],
    "notice": [NOTICE] * 40,
}


def chosen(**columns: list[str]) -> str:
    names = list(columns)
    rows = [
        Row(n, dict(zip(names, values, strict=True)), None)
        for n, values in enumerate(zip(*columns.values(), strict=True))
    ]
    return text_column("a table", names, rows)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["Text", "content", "BODY", "column_7", "Customer\ncomment"])
def test_prose_goes_before_longer_strings(name: str, other: str) -> None:
    assert chosen(**{"id": OTHERS["sha"], "other": OTHERS[other], name: PROSE}) == name
    assert chosen(**{name: PROSE, "other": OTHERS[other]}) == name


@pytest.mark.parametrize("other", ["html", "json", "url", "sha", "base64"])
def test_a_usual_name_is_not_enough(other: str) -> None:
    assert chosen(body=OTHERS[other], said=PROSE) == "said"


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("title", "Abstract"), "Abstract"),
        (("review_text", "notes"), "review_text"),
        (("comment", "Text"), "Text"),
        (("text", "Text"), "text"),
        (("notes", "productDescription"), "productDescription"),
        (("message_id", "notes"), "message_id"),
    ],
)
def test_names_are_looked_at_in_order(names: tuple[str, str], wanted: str) -> None:
    longer = [f"{text} {text}" for text in PROSE]
    assert chosen(**{names[0]: PROSE, names[1]: PROSE}) == wanted
    if wanted == names[0]:
        assert chosen(**{names[0]: PROSE, names[1]: longer}) == wanted


def test_long_texts_in_html_go_before_their_titles() -> None:
    pages = [f'<div class="row"><p>{text}<br>{text} {text} {text}</p></div>' for text in PROSE]
    assert chosen(title=PROSE, body=pages) == "body"
    assert chosen(title=PROSE, body=[page[:60] for page in pages]) == "title"


def test_ids_under_a_name_of_two_words_are_no_text() -> None:
    assert chosen(message_id=OTHERS["sha"], notes=PROSE) == "notes"


def test_a_text_is_longer_than_a_name() -> None:
    names = [f"Anna van der Berg {n}" for n in range(40)]
    assert chosen(author=names, remark=PROSE) == "remark"


def test_a_script_without_spaces_is_prose() -> None:
    chinese = [f"老木匠在港口修好了第{n}条旧渔船的木板。" for n in range(40)]
    assert chosen(other=OTHERS["agent"], nr=OTHERS["sha"], remark=chinese) == "remark"


@pytest.mark.parametrize("nothing", ["", "NULL", r"\N", "\ufeff\u200b", " "])
def test_an_empty_column_is_no_text_beside_prose(nothing: str) -> None:
    empty = [nothing] * 40
    assert chosen(text=empty, remark=PROSE) == "remark"
    assert chosen(text=empty, Text=PROSE) == "Text"
    assert chosen(text=empty, id=OTHERS["sha"]) == "text"
    assert chosen(text=[*empty[1:], PROSE[0]], remark=PROSE) == "text"
