"""What all tests of an engine need."""

from collections.abc import Iterator

import pytest
from engines import SECONDS


@pytest.fixture(scope="module")
def patient() -> Iterator[None]:
    """What stands still for a while on a busy machine is not broken."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tercet.models.llm.vllm.build._LOOK_SECONDS", SECONDS)
        patch.setattr("tercet.models.llm.vllm.engine._ANSWER_SECONDS", SECONDS)
        yield
