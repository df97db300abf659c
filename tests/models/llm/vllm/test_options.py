"""Options of vLLM's server: what changes answers is refused, what makes it faster is not."""

import pytest

from tercet.models.llm.vllm.options import fault, plain


@pytest.mark.parametrize(
    "name",
    [
        "max-num-seqs",
        "--max_num_seqs",
        "enable-prefix-caching",
        "tensor-parallel-size",
        "swap-space",
    ],
)
def test_what_says_how_fast_is_left_to_the_recipe(name: str) -> None:
    assert fault(name) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("seed", "without changing their fingerprints"),
        ("--kv_cache_dtype", "without changing their fingerprints"),
        ("rope-scaling", "without changing their fingerprints"),
        ("port", "Tercet's own"),
        ("ssl-keyfile", "Tercet's own"),
        ("dtype", "`llm.dtype`"),
        ("lora-modules", "`llm.adapter`"),
        ("no-enable-prefix-caching", "enable-prefix-caching: false"),
        ("Max-Num-Seqs", "name"),
        ("a b", "name"),
        ("", "name"),
    ],
)
def test_what_changes_answers_is_refused_with_the_place_it_belongs_to(name: str, said: str) -> None:
    assert said in (fault(name) or "")


@pytest.mark.parametrize("name", ["see", "tokeniz", "quant", "api"])
def test_the_beginning_of_a_refused_name_is_refused_since_vllm_takes_it_for_the_whole(
    name: str,
) -> None:
    assert fault(name)


def test_a_name_is_written_as_vllm_writes_it() -> None:
    assert plain("--max_num_seqs") == plain("max-num-seqs") == "max-num-seqs"
