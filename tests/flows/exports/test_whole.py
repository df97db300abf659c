"""Files that take their names once they are written whole."""

from pathlib import Path

import pytest
from failures import fails

from tercet.flows.exports.writing import whole_file
from tercet.tasks.stage import BadInput


def test_a_place_that_takes_no_file(tmp_path: Path) -> None:
    for place, why in ((tmp_path / "nowhere" / "a.html", "There is no"), (tmp_path, "is a dir")):
        with pytest.raises(BadInput, match=why), whole_file(place):
            pass


def test_what_stood_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"old")

    def half() -> None:
        with whole_file(path, replaces=True) as sink:
            sink.write(b"half of the new")
            raise ValueError("half")

    with pytest.raises(ValueError, match="half"):
        half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with whole_file(path, replaces=True) as sink:
        sink.write(b"new")
    assert path.read_bytes() == b"new"
    with fails("exists"), whole_file(path):
        pass
    assert path.read_bytes() == b"new"
