"""A tokenizer of each form, trained on texts, is one that transformers loads again."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tercet.models.pretraining import tokenizer as tokenizers

FORMS = {"masked": 90, "causal": 280, "t5": 160}


@pytest.mark.parametrize(("form", "vocabulary"), FORMS.items())
def test_what_is_trained_can_be_loaded_and_gives_texts_back(
    form, vocabulary, tiny_texts: list[str], tmp_path: Path
) -> None:
    made = tokenizers.trained(form, vocabulary, 64, lambda: iter([tiny_texts]))
    assert len(made) == vocabulary
    made.save_pretrained(tmp_path)
    again = tokenizers.loaded(tmp_path, form, vocabulary)
    assert again.get_vocab() == made.get_vocab()
    assert again.all_special_ids == made.all_special_ids
    for text in tiny_texts[:20]:
        ids = again(text)["input_ids"]
        assert ids == made(text)["input_ids"]
        assert again.decode(ids, skip_special_tokens=True).strip() == text


def test_special_tokens_of_each_form(tiny_texts: list[str]) -> None:
    bert, gpt2, t5 = (
        tokenizers.trained(form, size, 64, lambda: iter([tiny_texts]))
        for form, size in FORMS.items()
    )
    ids = bert("blue text")["input_ids"]
    assert (ids[0], ids[-1]) == (bert.cls_token_id, bert.sep_token_id)
    assert bert.mask_token_id is not None
    assert gpt2.eos_token == gpt2.bos_token == "<|endoftext|>"
    assert gpt2.decode(gpt2("Zoë, 5 €")["input_ids"]) == "Zoë, 5 €"
    assert t5("blue text")["input_ids"][-1] == t5.eos_token_id
    sentinels = tokenizers.sentinels(t5)
    assert len(sentinels) == 100
    assert sentinels[0] == len(t5) - 1
    assert t5.convert_ids_to_tokens(sentinels[1]) == "<extra_id_1>"


FEW = ["The sum of two numbers."] * 3
MANY = ["".join(map(chr, range(start, start + 20))) for start in range(0x4E00, 0x4F2C, 20)]


@pytest.mark.parametrize(
    ("form", "vocabulary", "texts"),
    [
        *((form, 5_000, FEW) for form in FORMS),
        # No room for the characters.
        *(("masked", 64, MANY), ("t5", 300, MANY), ("causal", 100, MANY)),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused_with_one_that_does(
    form, vocabulary: int, texts: list[str]
) -> None:
    with pytest.raises(ValueError, match="vocabulary") as raised:
        tokenizers.trained(form, vocabulary, 64, lambda: iter([texts]))
    fitting = int(re.findall(r"\d+", str(raised.value))[-1])
    assert len(tokenizers.trained(form, fitting, 64, lambda: iter([texts]))) == fitting


def test_a_tokenizer_that_does_not_fit_is_refused(tiny_backbone: Path, tmp_path: Path) -> None:
    assert tokenizers.loaded(tiny_backbone, "masked", 1000) is not None
    for folder, form, size, name in (
        (tiny_backbone, "masked", 30, "43"),
        (tiny_backbone, "t5", 1000, "sentinels"),
        (tmp_path, "masked", 1000, "tokenizer"),
    ):
        with pytest.raises(ValueError, match=name):
            tokenizers.loaded(folder, form, size)


def test_the_same_texts_give_the_same_tokenizer_in_any_process(tiny_texts: list[str]) -> None:
    program = """
import hashlib, json, sys
from tercet.models.pretraining import tokenizer as tokenizers
texts = json.loads(sys.stdin.read())
for form, size in json.loads(sys.argv[1]).items():
    made = tokenizers.trained(form, size, 64, lambda: iter([texts]))
    print(hashlib.md5(made.backend_tokenizer.to_str().encode()).hexdigest())
"""
    texts = json.dumps([f"{text} {chr(0x4E00 + n)}" for n, text in enumerate(tiny_texts)])
    command = [sys.executable, "-c", program, json.dumps({"masked": 130, "t5": 330})]
    digests = {
        subprocess.run(command, input=texts, capture_output=True, text=True, check=True).stdout
        for _ in range(3)
    }
    assert len(digests) == 1
