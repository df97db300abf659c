"""What a recipe may say about a corpus."""

from typing import Any

import pytest
from pydantic import ValidationError

from tercet.tasks.corpus.sources.corpora import CorpusConfig


def corpus(**keys: Any) -> CorpusConfig:
    return CorpusConfig.model_validate({"name": "c", "source": "c.csv", **keys})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"kind": "pairs"}, "kind is for labelled corpora"),
        ({"columns": {"anchor": "a"}}, "columns is for labelled corpora"),
        ({"role": "labelled"}, "needs a kind: triplets, pairs, scored, definitions, entailment"),
        ({"role": "labelled", "kind": "nli"}, "no kind 'nli'"),
        ({"role": "labelled", "kind": "pairs", "query": "q", "answer": "a"}, "under `columns`"),
        ({"role": "labelled", "kind": "pairs", "share": 2}, "share is not for labelled"),
        ({"role": "labelled", "kind": "pairs", "packages": ["a"]}, "packages is not for labelled"),
        ({"query": "q"}, "give both or none"),
    ],
)
def test_keys_that_do_not_go_together(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        corpus(**keys)


def test_what_is_dumped_is_valid_again() -> None:
    one = corpus(role="labelled", kind="pairs", columns={"anchor": "q", "positive": "a"}, limit=3)
    assert CorpusConfig.model_validate(one.model_dump(mode="json")) == one
