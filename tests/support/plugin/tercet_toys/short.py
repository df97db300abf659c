"""Finding `short`: candidates that the scorer `length` thinks too short."""

from tercet.tasks.findings.finding import Finding

FINDING = Finding(
    "short",
    "SELECT count(*) FILTER (value < 1) AS count, count(*) AS total FROM scores",
    "{count:,} of {total:,} candidates have too few words",
    "lower score.length.words",
    stage="score",
)
