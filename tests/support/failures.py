"""Failures as tests assert them: by their kind and by what they name, and not by their wording."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pydantic import ValidationError

from tercet.errors import ErrorKind, TercetError


@contextmanager
def fails(kind: ErrorKind, *names: object) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block ends in a foreseen failure of this kind, whose sentence names each of these."""
    with pytest.raises((TercetError, ValidationError)) as raised:
        yield raised
    error = raised.value
    if isinstance(error, ValidationError):
        error = error.errors()[0]["ctx"]["error"]
    assert error.kind == kind, str(error)
    assert [name for name in names if str(name) not in str(raised.value)] == [], str(raised.value)
