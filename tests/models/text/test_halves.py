import unicodedata

from tercet.models.text.halves import halves

TEN = "one two three four five six seven eight nine ten"


def test_several_sentences_are_cut_between_two_of_them_where_the_sides_are_most_alike() -> None:
    text = ["The heron waits in the water.", "It sees a small fish.", "Then it strikes."]
    assert halves(text, 20) == (
        "The heron waits in the water.",
        "It sees a small fish. Then it strikes.",
    )


def test_one_sentence_is_cut_behind_a_comma_near_its_middle() -> None:
    words = f"{TEN}, {TEN} {TEN}".split()
    words[1] += ","
    first, second = halves([" ".join(words)], 20) or ("", "")
    assert (first.split()[-1], second.split()[0]) == ("ten,", "one")
    assert f"{first} {second}" == " ".join(words)


def test_a_sentence_without_a_pause_is_cut_in_its_middle() -> None:
    assert halves([f"{TEN} {TEN}"], 20) == (TEN, TEN)


def test_what_is_too_short_has_no_halves() -> None:
    # One far too short side is no side of its own.
    assert halves(["Well.", f"{TEN} {TEN}."], 20) is not None
    assert halves([TEN], 20) is None
    assert halves(["Yes indeed.", "No."], 20) is None
    assert halves(["日本語の文。" * 3], 20) is None


def test_a_script_without_spaces_is_cut_between_letters_at_a_pause() -> None:
    chinese = "老木匠在港口修好了三条旧渔船的木板，天黑以后又去市场买了两盒钉子。"
    assert halves([chinese], 8) == (chinese[:18], chinese[18:])
    bare = chinese.replace("，", "")
    first, second = halves([bare], 8) or ("", "")
    assert first + second == bare
    assert abs(len(first) - len(second)) <= 1
    thai = "ช่างไม้ซ่อมเรือประมงเก่าสามลำที่ท่าเรือเมื่อวานนี้ตอนเย็น"
    first, second = halves([thai], 8) or ("", "")
    assert first + second == thai
    assert not unicodedata.combining(second[0])
