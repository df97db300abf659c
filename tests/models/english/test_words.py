from tercet.models.english.words import in_shape_of


def test_in_shape_of() -> None:
    assert in_shape_of("DOG", "cat") == "CAT"
    assert in_shape_of("Dog", "cat") == "Cat"
    assert in_shape_of("New York", "san marino") == "San Marino"
    assert in_shape_of("dog", "NumPy") == "NumPy"
