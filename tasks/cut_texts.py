"""Texts that are longer than an encoder reads: one warning, wherever texts are encoded."""

from collections.abc import Iterator, Sequence

from tercet.models.text.lengths import words_sql
from tercet.tasks.connections import ask
from tercet.tasks.stage import Work
from tercet.tasks.warning import StageWarning

# A share of the texts that have more words than `max_length` has tokens; a word is a token or more,
# so that more of them are cut than are counted. Looked for in the first rows.
CUT, LOOKED_AT = 0.05, 20_000


def find_cut(
    work: Work, key: str, columns: Sequence[str], rows: str, longest: int, which: str, stage: str
) -> Iterator[StageWarning]:
    """A warning if too many texts are cut.

    columns: of texts. rows: SQL behind FROM. which: the texts, in words. stage: the recipe's key
    that has `max_length`.
    """
    listed = ", ".join(columns)
    ((count, total, example),) = ask(
        work,
        f"""SELECT count(*) FILTER (words > {longest}), count(*),
            min(text) FILTER (words > {longest})
        FROM (SELECT text, {words_sql("text")} AS words FROM
            (SELECT unnest([{listed}]) AS text FROM
                (SELECT {listed} FROM {rows} LIMIT {LOOKED_AT}))
            WHERE text IS NOT NULL)""",
    )
    if total and count >= CUT * total:
        said = f"{count:,} or more of {total:,} {which} are longer than max_length, {longest} "
        said += "tokens, and are cut there"
        remedy = f"raise {stage}.max_length, or cut the texts into shorter passages"
        yield StageWarning("cut", key, count, total, said, remedy, example)
