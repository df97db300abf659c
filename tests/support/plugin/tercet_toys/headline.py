"""Prompted method `headline`: a language model's headline for a sentence."""

from pathlib import Path

from tercet.models.generation import Method, Prompted
from tercet.models.prompted.prompt_requests import each_sentence

METHOD = Method(
    *("headline", "positive", "keeps", each_sentence("headline"), Prompted),
    prompt=str(Path(__file__).with_name("headline")),
    variables=("sentence",),
)
