"""Which rows are queries to passages, where these and sentences stand in one table."""

from tercet.storage.rows import Rows

# A query's digest in SQL, whatever its letter case and spacing, and without a mark at its end.
QUERY_ID = r"""md5_number_lower(regexp_replace(
    regexp_replace(lower(trim(anchor)), '\s+', ' ', 'g'), '[\s.?!:]+$', ''))"""


def is_query(passages: Rows) -> str:
    """A condition in SQL: a row of `candidates` or `triplets` is a query with its passage.

    Its sentence_id is a passage's. So is that of a sentence that is a whole passage, without a
    context; but the anchor of its rows is that sentence.
    """
    return f"""(sentence_id IN (SELECT passage_id FROM {passages.sql("passages")})
        AND coalesce(md5_number_lower(anchor) <> sentence_id, FALSE))"""
