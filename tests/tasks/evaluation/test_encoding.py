"""Each distinct text is encoded once for each side that the model tells apart."""

from pathlib import Path
from typing import Any

import numpy as np

from tercet.models.encoders.encoder import encode, load_encoder
from tercet.models.encoders.settings import Prompts
from tercet.tasks.evaluation.encoding import Encoded, encode_texts
from tercet.tasks.evaluation.evaluate import EvaluateConfig
from tercet.tasks.stage import Resources, Work

PROMPTS = Prompts(query="the old file ", document="red ")


def encoded(folder: Path, model: Any, texts: list[Any]) -> Encoded:
    steps: list[int] = []
    resources = Resources(progress=lambda done, total, unit: steps.append(done))
    work = Work(EvaluateConfig(), 0, {}, {}, {}, resources, folder, lambda *_: None)
    found, _ = encode_texts(work, model, texts)
    assert steps == sorted(steps)
    assert steps[-1] == len(found.vectors)
    return found


def test_a_text_on_both_sides_has_a_vector_for_each(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    model = load_encoder(tiny_backbone, prompts=PROMPTS)
    texts = tiny_texts[:5]
    sided = [(text, side) for text in texts for side in ("query", None, "document", "query")]
    found = encoded(tmp_path, model, sided)
    assert len(found.vectors) == 15
    for side in (None, "query", "document"):
        expected = encode(model, texts, side=side)
        np.testing.assert_allclose(found.of(texts, side), expected, atol=1e-6)
    one_of_each = found.at([(texts[0], "query"), (texts[1], "document")])
    both = [encode(model, texts, side="query")[0], encode(model, texts, side="document")[1]]
    np.testing.assert_allclose(one_of_each, both, atol=1e-6)


def test_without_prompts_a_text_is_encoded_once(
    tiny_backbone: Path, tiny_texts: list[str], tmp_path: Path
) -> None:
    texts = tiny_texts[:4]
    sided = [*((text, "query") for text in texts), *((text, None) for text in texts[::-1])]
    found = encoded(tmp_path, load_encoder(tiny_backbone), [*sided, (texts[0], "document")])
    assert len(found.vectors) == 4
    assert found.rows[texts[0], "query"] == found.rows[texts[0], "document"] == 0
