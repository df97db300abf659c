"""Trainings whose loss became NaN or infinite: what they kept is of an earlier step."""

import duckdb

_LOST = """
SELECT phase, seed, max(step) FILTER (loss IS NOT NULL) AS ended, max(step) FILTER (chosen) AS kept
FROM training_log
GROUP BY phase, seed
HAVING NOT isfinite(arg_max(loss, step)) AND kept < ended
ORDER BY phase, seed
"""


def told(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A sentence for each such training of the connection's run."""
    try:
        found = connection.execute(_LOST).fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):  # nothing trained; an older store
        return []
    return [
        f"{phase}, seed {seed}: the loss was NaN or infinite at its last step, {ended:,}; the "
        f"weights of step {kept:,} are kept. Lower its learning rate."
        for phase, seed, ended, kept in found
    ]
