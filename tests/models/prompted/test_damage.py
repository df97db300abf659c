"""Answers are cleaned as corpus texts are, and what is lost or garbled is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tercet.models.prompted.damage import mended

SOURCE = "A plain sentence."


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("The caf\\u00e9 is open.", "The café is open."),
        ("A \\ud83d\\ude00 smile.", "A 😀 smile."),
        ("A \\U0001F600 smile.", "A 😀 smile."),
        ("The caf\\\\u00e9 is \\\\\\\\u201copen\\\\\\\\u201d.", "The café is “open”."),
        ("Salt &amp;amp;amp;#x26; pepper &amp;amp;lt;3", "Salt & pepper <3"),
        ('She said \\"no\\" to it\\\'s name.', 'She said "no" to it\'s name.'),
        ("A tab\\there.", "A tab here."),
        ("One line.\\nAnother.", "One line.\nAnother."),
        ("The end.\\n", "The end."),
        ("Salt &amp; pepper", "Salt & pepper"),
        ("Salt &amp;amp; pepper", "Salt & pepper"),
        ("It&#39;s &quot;here&quot;&nbsp;now", 'It\'s "here" now'),
        ("A\x00 B\x1b[31mC\x07", "A B[31mC"),
        ("\ufeffA zero\u200bwidth\u2060 BOM", "A zerowidth BOM"),
        ("Cafe\u0301", "Café"),
        ("Two  spaces\u00a0and a \tmore", "Two spaces and a more"),
        ("One\r\nTwo\u2028Three", "One\nTwo Three"),
        ("\\x1b[0mA word", "[0mA word"),
    ],
)
def test_what_is_plain_is_mended(said: str, meant: str) -> None:
    assert mended(said, SOURCE) == (meant, False)


@pytest.mark.parametrize(
    "said",
    ["The caf\ufffd is open.", "Half a \\ud83d smile.", "The cafÃ© is open.", "It isnâ€™t so.",
     "It isn\u00e2\u0080\u0099t so.", "Ð¿Ñ€Ð¸Ð²ÐµÑ‚ to you", "ä¸­æ–‡ is spoken.", "A ðŸ˜€ smile.",
     "The cafÃƒÂ© is open.", "Twenty Â°C outside.", "\\xc3\\xa9tude"],
)  # fmt: skip
def test_what_is_lost_or_garbled_is_found(said: str) -> None:
    assert mended(said, SOURCE)[1]


@pytest.mark.parametrize(
    "good",
    ["The café is open.", "“Le café”…", "“CAFÉ” is open", "São Paulo, MAÇÃ", "Привет, мир", "中文",
     "Ελλάδα…", "5 °C – 7 °C", "naïve—très", "Ærø’s", "Tiếng Việt", "R&D; C&A", "AT&T costs 5£…",
     "Ångström™"],
)  # fmt: skip
def test_what_is_good_stays(good: str) -> None:
    assert mended(good, SOURCE) == (good, False)


@pytest.mark.parametrize(
    "own", ["C:\\new\\u00e9", "&lt;b&gt; is a tag", "A \ufffd of its own", "cafÃ©"]
)
def test_what_the_sentence_has_itself_stays(own: str) -> None:
    assert mended(own, own) == (own, False)


@given(st.text(), st.text())
def test_whatever_is_said_is_clean_afterwards(said: str, source: str) -> None:
    text, _ = mended(said, source)
    assert not [c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f"]
    assert "\ufeff" not in text
    assert mended(text, text)[0] == text
