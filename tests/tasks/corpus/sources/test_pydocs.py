"""Packages made up on the spot, installed only in name; docstrings in every style."""

import sys
from importlib import metadata
from pathlib import Path

import pytest
from failures import fails

from tercet.tasks.corpus.sources import pydocs
from tercet.tasks.corpus.sources.corpora import CorpusConfig, Document, Fault

MODULE = '''"""About the kitchen as a whole.

Kettles and cups are kept in it, and nothing else is ever put there.
"""
raise SystemExit("never import me")

class Kettle:
    """A vessel for boiling water."""

    def boil(self):
        """Heat the water until it boils over.

        The sensor decides when it is hot, so the time depends on the water. Set x = 1.
        """
        def inner():
            """Not documented for anyone to read."""

if True:
    async def pour(cup):
        r"""Pour the tea into the cup.

        The cup must be empty, or the tea will run over the table.
        """
'''


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the made-up distribution `kitchen-tools`, whose top module is `kitchen`."""
    contents = {
        "kitchen/__init__.py": MODULE,
        "kitchen/broken.py": 'def f(:\n    """Broken."""\n',
        "kitchen/plain.py": "x = 1  # no docstring at all\n",
        "kitchen/tests/test_it.py": '"""Tests are not read at all."""\n',
        "kitchen/data.txt": "not code",
    }
    info = tmp_path / "kitchen_tools-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen-tools\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("kitchen\n")
    for name, text in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (info / "RECORD").write_text("".join(f"{name},sha256=x,1\n" for name in contents))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    pydocs._installed.cache_clear()
    yield tmp_path
    pydocs._installed.cache_clear()


def corpus(**more: object) -> CorpusConfig:
    values = {"name": "docs", "source": "pydocs", "packages": ["kitchen-tools"], **more}
    return CorpusConfig.model_validate(values)


def test_docstrings_become_documents_with_their_pairs(installed: Path) -> None:
    readings = list(pydocs.read(corpus(), 10_000))
    documents = [reading for reading in readings if isinstance(reading, Document)]
    assert [document.path for document in documents] == [
        "kitchen:",
        "kitchen:Kettle",
        "kitchen:Kettle.boil",
        "kitchen:pour",
    ]
    assert documents[0].pairs == [
        (
            "About the kitchen as a whole.",
            "Kettles and cups are kept in it, and nothing else is ever put there.",
        )
    ]
    assert documents[2].pairs == []  # its second paragraph holds a formula
    assert documents[2].paragraphs == [
        ["Heat the water until it boils over."],
        ["The sensor decides when it is hot, so the time depends on the water."],
    ]
    assert len(documents[3].pairs) == 1
    assert {document.source for document in documents} == {"kitchen-tools"}
    faults = [reading for reading in readings if isinstance(reading, Fault)]
    assert {(fault.reason, fault.path) for fault in faults} == {
        ("unparsable", "kitchen/broken.py"),
        ("markup", "kitchen:Kettle.boil"),
    }


def test_what_can_be_asked_about_a_docstring(installed: Path) -> None:
    readings = pydocs.read(corpus(), 10_000)
    asked = {r.path: list(r.questions) for r in readings if isinstance(r, Document)}
    kettle, boil = "A vessel for boiling water.", "Heat the water until it boils over."
    assert asked == {
        "kitchen:": [],
        "kitchen:Kettle": [("name_to_summary", "Kettle", kettle, [kettle])],
        "kitchen:Kettle.boil": [
            ("name_to_summary", "Kettle.boil()", boil, [boil]),
            ("method_to_class", boil, kettle, [boil, kettle]),
        ],
        "kitchen:pour": [
            (
                "name_to_summary",
                "pour(cup)",
                "Pour the tea into the cup.",
                ["Pour the tea into the cup."],
            )
        ],
    }


def test_a_package_goes_by_its_module_too(installed: Path) -> None:
    by_module = corpus(packages=["kitchen"])
    assert len(list(pydocs.read(by_module, 10_000))) == 6
    pydocs.check(by_module, 10_000)


def test_digest_follows_the_record(installed: Path) -> None:
    before = pydocs.digest(corpus())
    assert pydocs.digest(corpus()) == before
    record = installed / "kitchen_tools-1.0.dist-info" / "RECORD"
    record.write_text(record.read_text().replace("sha256=x", "sha256=y"))
    assert pydocs.digest(corpus()) != before


def test_files_are_chosen_by_hash_of_their_names() -> None:
    names = [f"package/module_{number:02}.py" for number in range(100)]
    ten = pydocs.chosen(names, 10)
    assert len(ten) == 10
    assert ten == sorted(ten)
    assert set(ten) < set(pydocs.chosen(names, 0.2))
    assert len(pydocs.chosen(names, 0.2)) == 20
    assert pydocs.chosen(names, 1.0) == pydocs.chosen(names, None) == names
    more = pydocs.chosen(sorted([*names, "package/new.py"]), 10)
    assert len(set(more) & set(ten)) >= 9


def test_limit_counts_docstrings(installed: Path) -> None:
    documents = [r for r in pydocs.read(corpus(limit=2), 10_000) if isinstance(r, Document)]
    assert len(documents) == 2


def test_unknown_packages_are_named() -> None:
    with fails("missing_package", "'scipi'", "'scipy'"):
        pydocs.check(corpus(packages=["scipi"]), 10_000)
    with fails("missing_package", "'no-such-thing-at-all'"):
        pydocs.check(corpus(packages=["no-such-thing-at-all"]), 10_000)


def test_real_packages_yield_pairs_without_markup() -> None:
    metadata.distribution("networkx")
    some = corpus(packages=["networkx"], files=60)
    documents = [r for r in pydocs.read(some, 10_000) if isinstance(r, Document)]
    pairs = [pair for document in documents for pair in document.pairs]
    assert len(pairs) >= 50
    for text in [text for pair in pairs for text in pair]:
        assert not set(text) & set("`{}\\|<>=$")
        assert ">>>" not in text
        assert ".. " not in text


NUMPY = """Boil water until it sings.

    The kettle is heated slowly, see :func:`~kitchen.heat`. It stops
    when ``sensor.hot`` says so [1]_.

    .. versionadded:: 1.2
       Kettles of glass.

    Parameters
    ----------
    litres : float
        How much water there is in the kettle.

    Returns
    -------
    float
        The seconds that it took.

    Notes
    -----
    Salt raises the boiling point. Its effect is small:

    .. math:: \\Delta T = K b

    Height lowers it.

    References
    ----------
    .. [1] A Book of Tea. It has many pages.

    Examples
    --------
    Boil a litre of it here.

    >>> boil(1.0)
    240.0
    """

GOOGLE = """Pour the tea.

    The cup is turned first, so that its handle points to the guest::

        cup.turn(90)
        pour(cup)

    Milk comes after it.

    Args:
        cup (Cup): the cup that is filled.

            A second paragraph about it.
        milk: how much of it.
    Returns: nothing at all.

    Raises:
        Spill: when the cup is full.

    It never asks.
    """

SPHINX = """Stir the tea with `a spoon <https://example.org/spoon>`_, *gently*, **never** wildly.

    :param spoon: what to stir with,
        of silver
    :type spoon: Spoon

    - a list
      that goes on
    - of two

    term
        and what it means

    =====  =====
    cold   warm
    =====  =====
    """

MARKDOWN = """Serves the [`~kitchen.Tea`] with [lemon](https://example.org/lemon).

    ## Usage

    ```python
    serve(tea)

    clear()
    ```

    | a | b |
    |---|---|

    <Tip>

    Serve it <b>hot</b>.

    </Tip>
    """


@pytest.mark.parametrize(
    ("docstring", "lead", "rest"),
    [
        (
            NUMPY,
            [
                "Boil water until it sings.",
                "The kettle is heated slowly, see heat. It stops when sensor.hot says so.",
            ],
            ["Salt raises the boiling point. Its effect is small:", "Height lowers it."],
        ),
        (
            GOOGLE,
            [
                "Pour the tea.",
                "The cup is turned first, so that its handle points to the guest:",
                "Milk comes after it.",
            ],
            ["It never asks."],
        ),
        (SPHINX, ["Stir the tea with a spoon, gently, never wildly."], []),
        (MARKDOWN, ["Serves the Tea with lemon."], ["Serve it hot."]),
        ("", [], []),
    ],
    ids=["numpy", "google", "sphinx", "markdown", "empty"],
)
def test_prose_is_kept_in_order(docstring: str, lead: list[str], rest: list[str]) -> None:
    assert pydocs.prose_of(docstring) == (lead, rest)


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        (":py:class:`the title <a.b.C>` is", "the title is"),
        (":meth:`.Session.flush` is", "Session.flush is"),
        (":class:`!Plain` and `~x.y.z`", "Plain and z"),
        ("an argument *args or **kwargs stays", "an argument *args or **kwargs stays"),
        ("``a_b`` and coef_ stay", "a_b and coef_ stay"),
        ("as shown [Knuth97]_ in a book", "as shown in a book"),
        (r"a \*starred\* word", "a *starred* word"),
    ],
)
def test_inline_markup(marked: str, shown: str) -> None:
    assert pydocs.plain(marked) == shown


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The array is sorted in place.", True),
        ("Return True if x is close() to y.", True),
        ("Set x = 5 here.", False),
        ("See https://example.org for more.", False),
        ("The options are:", False),
        ("a_b c_d e.f g1 h2 words", False),
        ("% (doc)s is put in.", False),
    ],
)
def test_prose_is_told_from_left_overs(sentence: str, expected: bool) -> None:
    assert pydocs.is_prose(sentence) is expected
