"""SQL over the pool of answers: one row per request, usage, and rates."""

import pyarrow as pa

_TIME = pa.timestamp("us")

USAGE = pa.schema(
    [
        ("run_id", pa.string()),
        ("recipe", pa.string()),
        ("method", pa.string()),
        ("model", pa.string()),
        ("answers", pa.int64()),
        ("failed", pa.int64()),
        ("retries", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("n_tokens", pa.int64()),
        ("cost", pa.float64()),
        ("seconds_busy", pa.float64()),
        ("first", _TIME),
        ("last", _TIME),
    ]
)
"""Table `usage`. All requests, failures and duplicate answers included: one row per run, recipe,
method and model.

Columns:
    run_id: → `runs.run_id`
    recipe: as in `responses`
    method: as in `responses`
    model: as in `responses`
    answers: requests that were answered
    failed: requests that failed for good
    retries: attempts after the first, over all requests
    prompt_tokens: tokens of the prompts
    n_tokens: tokens of the answers
    cost: sum of `responses.cost`; NULL without prices
    seconds_busy: seconds in which at least one request was open: `n_tokens / seconds_busy` is the
        rate
    first: when the first answer or failure arrived
    last: when the last one did
"""


def answers_sql(asked: str) -> str:
    """One row per digest of the query `asked`: its first answer or else its latest failure.

    Only digests that occur twice are sorted, so that long answers are never held in memory.
    """
    return f"""
WITH asked AS NOT MATERIALIZED ({asked}),
twice AS (SELECT hash(request_digest) FROM asked GROUP BY ALL HAVING count(*) > 1)
SELECT * FROM asked WHERE hash(request_digest) NOT IN (FROM twice)
UNION ALL
SELECT * FROM asked WHERE hash(request_digest) IN (FROM twice)
QUALIFY row_number() OVER (
    PARTITION BY request_digest ORDER BY finish_reason = 'failed',
    CASE WHEN finish_reason = 'failed' THEN -epoch_us(created) ELSE epoch_us(created) END
) = 1"""


def usage_sql(asked: str) -> str:
    """`USAGE` of the query `asked`: every row counts, even several of one digest."""
    keys = "run_id, recipe, method, model"
    return f"""
SELECT {keys}, count(*) FILTER (finish_reason <> 'failed') AS answers,
    count(*) FILTER (finish_reason = 'failed') AS failed,
    sum(greatest(attempts - 1, 0))::BIGINT AS retries,
    sum(prompt_tokens)::BIGINT AS prompt_tokens, sum(n_tokens)::BIGINT AS n_tokens,
    sum(cost) AS cost, sum(busy) AS seconds_busy, min(created) AS first, max(created) AS last
FROM ({_busy_sql(asked, keys)})
GROUP BY ALL"""


def rates_sql(asked: str) -> str:
    """By method of the query `asked`: answers, their tokens, and the seconds of all methods."""
    return f"""
SELECT method, count(*), sum(n_tokens)::BIGINT, sum(sum(busy)) OVER ()
FROM ({_busy_sql(f"SELECT * FROM ({asked}) WHERE finish_reason <> 'failed'", "run_id")})
GROUP BY method
ORDER BY method"""


def _busy_sql(asked: str, keys: str) -> str:
    """The rows with `busy`: a request's seconds in which no earlier one of its group was open."""
    return f"""
SELECT *, greatest(0, closed - greatest(opened, coalesce(max(closed) OVER (
    PARTITION BY {keys} ORDER BY opened, closed
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), opened))) AS busy
FROM (SELECT * EXCLUDE (raw), epoch(created) AS closed, epoch(created) - seconds AS opened
    FROM ({asked}))"""
