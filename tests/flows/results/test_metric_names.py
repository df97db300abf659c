"""A metric as a person types it, and its counterpart on the other split."""

import pytest
from failures import fails

from tercet.flows.results.metric_names import parse_metric


@pytest.mark.parametrize("text", ["recall@1", "retrieval test recall@1"])
def test_too_few_words_are_refused(text: str) -> None:
    with fails("bad_value", text):
        parse_metric(text)


@pytest.mark.parametrize(
    ("test", "dev"),
    [
        ("retrieval document_pairs test mrr", "retrieval document_pairs dev mrr"),
        ("sts STS-B all spearman", "sts STS-B dev all spearman"),
        ("sts SICK-R all spearman", "sts SICK-R dev all spearman"),
    ],
)
def test_dev_and_test_lead_to_each_other(test: str, dev: str) -> None:
    assert str(parse_metric(dev)) == dev
    assert parse_metric(test).on_dev() == parse_metric(dev)
    assert parse_metric(dev).on_test() == parse_metric(test)
    assert parse_metric(dev).on_dev() == parse_metric(dev)
    assert parse_metric(test).on_test() == parse_metric(test)
    assert parse_metric(dev).of_dev
    assert not parse_metric(test).of_dev


def test_the_years_of_sts_are_chosen_by_the_dev_set_of_sts_b_and_transfer_has_none() -> None:
    for task in ("STS", "STS12", "STS16"):
        found = parse_metric(f"sts {task} all spearman").on_dev()
        assert found == parse_metric("sts STS-B dev all spearman")
    assert parse_metric("transfer MR test accuracy").on_dev() is None
