"""The sentence about the encoder that was chosen."""

import duckdb
import pytest

from tercet.flows.results.chosen import read_choice


@pytest.mark.parametrize(
    ("mix", "by", "n", "parts"),
    [
        (0.0, "questions", 55, ("55 questions chose the untouched encoder.", "what the others")),
        (0.25, "questions", 55, ("25 % of the trained one",)),
        (1.0, "default", 0, ("ends with the trained encoder", "no questions to choose by")),
        (0.5, "default", 29, ("50 % of the trained one", "29 questions choose nothing")),
    ],
)
def test_the_sentence_names_the_encoder_and_who_chose(
    mix: float, by: str, n: int, parts: tuple[str, ...]
) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE choices AS SELECT 7 AS seed, $mix AS mix, $chosen_by AS chosen_by "
            "FROM range(3)",
            {"mix": mix, "chosen_by": by},
        )
        connection.execute(
            "CREATE TABLE candidate_encoders AS SELECT 7 AS seed, $n AS n, true AS chosen",
            {"n": n},
        )
        sentence = str(read_choice(connection, 7))
        assert all(part in sentence for part in parts)
        assert read_choice(connection, 8) is None
