"""Hand-written docstrings in every style, and what must be left of them."""

import pytest

from tercet.tasks.corpus.sources import pydocs

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
            [
                "Salt raises the boiling point. Its effect is small:",
                "Height lowers it.",
            ],
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
