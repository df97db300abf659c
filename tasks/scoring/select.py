"""Stage `select`: which candidates become triplets; each of the others is a reject with a reason.

Thresholds apply to all methods or to one, as numbers or as quantiles of the method's scores.
A candidate that shares a mark (eight words in a row, see `models/text/marks.py`) with a text of dev
or test is refused: a rule may write by chance what stands there.
Accepted positives and negatives of a sentence are ranked and paired by rank. Where one side is
empty, the positive falls back to the sentence itself and the negative to the `random` candidate
(GCSE, section 3.3), if the config allows it.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import Field

from tercet.storage.rows import Rows, quoted
from tercet.tasks.connections import connection
from tercet.tasks.scoring.held_out import find_held_out
from tercet.tasks.stage import BadInput, Config, Stage, Work

TRIPLETS = pa.schema(
    [
        ("triplet_id", pa.uint64()),
        ("sentence_id", pa.uint64()),
        ("anchor", pa.string()),
        ("positive", pa.string()),
        ("negative", pa.string()),
        ("positive_id", pa.uint64()),
        ("negative_id", pa.uint64()),
        ("positive_method", pa.string()),
        ("negative_method", pa.string()),
        ("positive_similarity", pa.float64()),
        ("negative_similarity", pa.float64()),
    ]
)

ACCEPTANCE = pa.schema(
    [
        ("role", pa.string()),
        ("method", pa.string()),
        ("candidates", pa.int64()),
        ("accepted", pa.int64()),
        ("used", pa.int64()),
        ("threshold", pa.float64()),
        ("similarity_p10", pa.float64()),
        ("similarity_median", pa.float64()),
        ("similarity_p90", pa.float64()),
    ]
)

RANDOM = "random"


class Quantile(Config):
    """A threshold at this share of the method's own scores, counted from the lowest."""

    quantile: float = Field(ge=0.0, le=1.0)


Similarity: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)] | Quantile
Bound: TypeAlias = Similarity | None


def _cosine(description: str, default: float | None) -> Any:
    return Field(default=default, description=description)


class MethodConfig(Config):
    """Thresholds of one method; those left out are the general ones."""

    positive_min: Bound = None
    negative_min: Bound = None
    negative_max: Bound = None
    p_min: float | None = Field(default=None, ge=0.0, le=1.0)
    weight: float = Field(
        default=1.0,
        ge=0.0,
        description="Weight in the draw among a sentence's accepted candidates; 0: never drawn.",
    )


class SelectConfig(Config):
    """Thresholds, fallbacks and the choice among several accepted candidates."""

    positive_min: Bound = _cosine("Lowest similarity of a positive (GCSE: 0.9).", 0.9)
    negative_min: Bound = _cosine("Lowest similarity of a negative; null: none.", None)
    negative_max: Bound = _cosine("Highest similarity of a negative (GCSE: 0.75).", 0.75)
    p_min: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Lowest probability accepted that the role is right.",
    )
    similarity: str | None = Field(
        default=None,
        description="The scorer whose similarity is used; null: the only one that gives it.",
    )
    p_true: str | None = Field(
        default=None,
        description="The scorer whose probability is used; null: the only one that gives it.",
    )
    methods: Mapping[str, MethodConfig] = Field(default_factory=dict)
    per_sentence: int = Field(default=1, ge=1, le=64, description="Most triplets per anchor.")
    prefer: Literal["draw", "similarity"] = Field(
        default="draw",
        description="Among several accepted candidates: a seeded draw by the methods' "
        "weights, or the most similar first (the surest positive, the hardest negative).",
    )
    fallback_positive: bool = Field(
        default=True, description="If no positive is accepted, the anchor itself is the positive."
    )
    fallback_negative: bool = Field(
        default=True,
        description="If no negative is accepted, the random candidate is the negative.",
    )
    swap_roles: tuple[str, ...] = Field(
        default=(),
        description="Methods whose refused positives may become negatives; a change of meaning "
        "never becomes a positive.",
    )


def run(work: Work) -> None:
    """Triplets, rejects and each method's acceptance, by SQL over candidates and scores."""
    with connection(work) as db:
        db.execute("SET preserve_insertion_order = false")
        find_held_out(db, work)
        _load(db, work)
        _bound(db, work.config)
        _judge(db, work.config)
        _rank(db, work.config, work.seed)
        _pair(db, work.config)
        for table, query in (
            ("triplets", _TRIPLETS),
            ("rejects", _REJECTS),
            ("acceptance", _ACCEPTANCE),
        ):
            for name, rows in work.inputs.items():
                query = query.replace(f"@{name}", rows.sql(name))
            for batch in db.sql(query).to_arrow_reader(work.resources.part_rows):
                if batch.num_rows:
                    work.emit(table, pa.Table.from_batches([batch]))


def _load(db: Any, work: Work) -> None:
    """Table `scored`: one row per candidate, without its text, with its scores if it has any."""
    candidates, scores = work.inputs["candidates"], work.inputs["scores"]
    config: SelectConfig = work.config
    asked = [
        f"({quoted(measure)}, {quoted(scorer)})"
        for measure, named in (("similarity", config.similarity), ("p_true", config.p_true))
        for scorer in _scorers(db, scores, measure, named)
    ] or ["(NULL, NULL)"]
    db.execute(
        f"""CREATE TEMP TABLE scored AS
            SELECT candidate_id, sentence_id, role, method, text_id, value, p_true, words
            FROM (SELECT candidate_id, any_value(sentence_id) AS sentence_id,
                    any_value(role) AS role, any_value(method) AS method,
                    any_value(md5_number_lower(text)) AS text_id
                FROM {candidates.sql("candidates")} GROUP BY candidate_id)
            LEFT JOIN (SELECT candidate_id,
                    any_value(value) FILTER (measure = 'similarity') AS value,
                    any_value(value) FILTER (measure = 'p_true') AS p_true
                FROM {scores.sql("scores")}
                WHERE NOT isnan(value) AND (measure, scorer) IN ({", ".join(asked)})
                GROUP BY candidate_id)
            USING (candidate_id)
            LEFT JOIN (SELECT candidate_id, min(words) AS words FROM held_out
                GROUP BY candidate_id)
            USING (candidate_id)"""
    )


def _scorers(db: Any, scores: Rows, measure: str, named: str | None) -> list[str]:
    """The one scorer whose measure counts; none where there are no such scores.

    Raises: BadInput where several have given the measure and none is named.
    """
    if named is not None:
        return [named]
    query = f"SELECT DISTINCT scorer FROM {scores.sql('scores')} WHERE measure = ? ORDER BY scorer"
    found = [row[0] for row in db.execute(query, [measure]).fetchall()]
    if len(found) > 1:
        raise BadInput(f"select: {several(measure, found)}.")
    return found


def several(measure: str, scorers: Sequence[str]) -> str:
    """What to do if several scorers give one measure."""
    return f"{' and '.join(scorers)} both give {measure}: name one of them as select.{measure}"


def _bound(db: Any, config: SelectConfig) -> None:
    """Table `bounds`: (role, method) with thresholds as numbers, quantiles resolved."""
    db.execute(
        """CREATE TEMP TABLE bounds(role VARCHAR, method VARCHAR, low DOUBLE, high DOUBLE,
            swap_high DOUBLE, p_min DOUBLE, weight DOUBLE, reserved BOOLEAN)"""
    )
    pairs = db.execute("SELECT DISTINCT role, method FROM scored ORDER BY ALL").fetchall()
    for role, method in pairs:
        own = config.methods.get(method, MethodConfig())

        def number(name: str, role: str = role, method: str = method) -> float | None:
            own = config.methods.get(method, MethodConfig())
            bound: Bound = getattr(own, name)
            bound = getattr(config, name) if bound is None else bound
            if not isinstance(bound, Quantile):
                return bound
            return db.execute(  # type: ignore[no-any-return]
                "SELECT quantile_cont(value, ?) FROM scored WHERE role = ? AND method = ?",
                [bound.quantile, role, method],
            ).fetchone()[0]

        positive = role == "positive"
        low = number("positive_min") if positive else number("negative_min")
        high = None if positive else number("negative_max")
        swap = number("negative_max") if positive and method in config.swap_roles else None
        p_min = config.p_min if own.p_min is None else own.p_min
        # The random candidate is kept for the fallback unless the config gives it a place.
        reserved = method == RANDOM and RANDOM not in config.methods
        db.execute(
            "INSERT INTO bounds VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [role, method, low, high, swap, p_min, own.weight, reserved],
        )


def _judge(db: Any, config: SelectConfig) -> None:
    """Table `judged`: a candidate with the role it may serve in, or the reason why in none.

    A text that several methods give in one role counts once; a candidate made for the role comes
    before one that changed roles, and the method of more weight before the others.
    """
    db.execute(
        """CREATE TEMP TABLE judged AS
        SELECT * REPLACE (
            CASE WHEN role IS NOT NULL AND nth > 1 THEN 'duplicate' ELSE refused END AS refused,
            CASE WHEN nth = 1 THEN role END AS role)
        FROM (SELECT *, row_number() OVER (PARTITION BY sentence_id, role, text_id
                ORDER BY reserved, made_as <> role, weight DESC, candidate_id) AS nth
        FROM (SELECT candidate_id, sentence_id, s.role AS made_as, s.method, text_id, value,
            p_true, weight, reserved, low, high, p_min, words,
            CASE WHEN words IS NOT NULL THEN 'held_out_text'
                WHEN value IS NULL THEN 'no_score'
                WHEN p_min IS NOT NULL AND p_true IS NULL THEN 'no_score'
                WHEN (CASE s.role WHEN 'positive' THEN p_true ELSE 1 - p_true END) < p_min
                    THEN 'below_p_min'
                WHEN s.role = 'positive' AND value < low THEN 'below_positive_min'
                WHEN s.role = 'negative' AND value < low THEN 'below_negative_min'
                WHEN s.role = 'negative' AND value > high THEN 'above_negative_max'
                WHEN weight = 0 THEN 'no_weight'
            END AS refused,
            CASE WHEN refused IS NULL THEN s.role
                WHEN refused = 'below_positive_min' AND value <= swap_high AND weight > 0
                    THEN 'negative'
            END AS role
        FROM scored s JOIN bounds b ON s.role = b.role AND s.method = b.method))"""
    )


def _rank(db: Any, config: SelectConfig, seed: int) -> None:
    """Table `ranked`: accepted candidates with their rank among those of their sentence and role.

    The draw is an exponential race: the smallest -ln(u) / weight wins, with the method's weight
    shared among its candidates of the sentence, so that many candidates do not outvote few.
    """
    order = "value DESC, candidate_id" if config.prefer == "similarity" else "race, candidate_id"
    db.execute(
        f"""CREATE TEMP TABLE ranked AS
        SELECT candidate_id, sentence_id, role, method, text_id, value,
            row_number() OVER (PARTITION BY sentence_id, role ORDER BY {order}) AS rank
        FROM (SELECT *,
                -ln(((md5_number_lower('{seed}' || chr(31) || 'select' || chr(31)
                    || candidate_id::VARCHAR) >> 11)::DOUBLE + 0.5) / 9007199254740992.0)
                * count(*) OVER (PARTITION BY sentence_id, role, method) / weight AS race
            FROM judged WHERE role IS NOT NULL AND NOT reserved)"""
    )


def _pair(db: Any, config: SelectConfig) -> None:
    """Tables `paired`: sentence, rank, positive and negative; null where the sentence itself is.

    A pair of one text twice goes to `alike` instead, and makes no triplet.

    The random candidate stands in at any rank where a negative is missing; a sentence with nothing
    accepted still gets one pair when both fallbacks are allowed, as in the paper.
    """
    # A sentence without candidates of its own never has one, so that these are all of them.
    db.execute(
        """CREATE TEMP TABLE spare AS
        SELECT sentence_id, arg_min(candidate_id, candidate_id) AS candidate_id,
            arg_min(value, candidate_id) AS value, arg_min(text_id, candidate_id) AS text_id
        FROM judged WHERE reserved AND role = 'negative' GROUP BY sentence_id"""
    )
    positive = "TRUE" if config.fallback_positive else "p.candidate_id IS NOT NULL"
    spare = "s.candidate_id" if config.fallback_negative else "NULL::UBIGINT"
    nothing = (
        "UNION SELECT sentence_id, 1 FROM spare"
        if config.fallback_positive and config.fallback_negative
        else ""
    )
    db.execute(
        f"""CREATE TEMP TABLE pairs AS
        SELECT sentence_id, rank, p.candidate_id AS positive_id,
            coalesce(p.method, 'self') AS positive_method,
            CASE WHEN p.candidate_id IS NULL THEN 1.0 ELSE p.value END AS positive_similarity,
            coalesce(n.candidate_id, {spare}) AS negative_id,
            coalesce(n.method, '{RANDOM}') AS negative_method,
            CASE WHEN n.candidate_id IS NULL THEN s.value ELSE n.value END AS negative_similarity,
            -- A sentence's id is that of its text.
            coalesce(p.text_id, sentence_id) = coalesce(n.text_id, s.text_id) AS same_text
        FROM (SELECT DISTINCT sentence_id, rank FROM ranked
            WHERE rank <= {config.per_sentence} {nothing})
        LEFT JOIN (SELECT * FROM ranked WHERE role = 'positive') p USING (sentence_id, rank)
        LEFT JOIN (SELECT * FROM ranked WHERE role = 'negative') n USING (sentence_id, rank)
        LEFT JOIN spare s USING (sentence_id)
        WHERE {positive} AND coalesce(n.candidate_id, {spare}) IS NOT NULL"""
    )
    for table, condition in (("paired", "NOT same_text"), ("alike", "same_text")):
        db.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM pairs WHERE {condition}")
    for table, source in (("used", "paired"), ("unpaired", "alike")):
        db.execute(
            f"""CREATE TEMP TABLE {table} AS
            SELECT positive_id AS candidate_id FROM {source} WHERE positive_id IS NOT NULL
            UNION SELECT negative_id FROM {source}"""
        )
    # `reason` of each candidate that no triplet holds, with the number and the bound it met.
    db.execute(
        f"""CREATE TEMP TABLE refusals AS
        SELECT j.candidate_id,
            CASE WHEN j.role IS NULL THEN refused
                WHEN u.candidate_id IS NOT NULL THEN 'same_text'
                WHEN j.reserved THEN 'unused_fallback'
                WHEN r.rank <= {config.per_sentence} THEN 'no_pair'
                ELSE 'surplus' END AS reason,
            CASE reason
                WHEN 'no_score' THEN 'it has no score'
                WHEN 'held_out_text' THEN 'also in dev or test: ' || words
                WHEN 'duplicate' THEN 'another method gave the same text in this role'
                WHEN 'same_text' THEN 'it was paired with the same text in the other role'
                WHEN 'below_p_min' THEN printf('probability %.4f, below %.4f',
                    CASE made_as WHEN 'positive' THEN p_true ELSE 1 - p_true END, p_min)
                WHEN 'above_negative_max' THEN printf('similarity %.4f, above %.4f',
                    j.value, high)
                WHEN 'no_weight' THEN 'its method has the weight 0'
                WHEN 'unused_fallback' THEN printf('similarity %.4f, not needed', j.value)
                WHEN 'no_pair' THEN 'nothing of the other role was accepted for its sentence'
                WHEN 'surplus' THEN printf('similarity %.4f, rank %d of its role', j.value, r.rank)
                ELSE printf('similarity %.4f, below %.4f', j.value, low) END AS detail
        FROM judged j LEFT JOIN ranked r USING (candidate_id)
        LEFT JOIN unpaired u USING (candidate_id)
        WHERE j.candidate_id NOT IN (SELECT candidate_id FROM used)"""
    )


_TRIPLETS = """
SELECT md5_number_lower(concat_ws(chr(31), sentence_id::VARCHAR,
        coalesce(positive_id::VARCHAR, 'self'), negative_id::VARCHAR)) AS triplet_id,
    sentence_id, s.text AS anchor, coalesce(p.text, s.text) AS positive, n.text AS negative,
    positive_id, negative_id, positive_method, negative_method, positive_similarity,
    negative_similarity
FROM paired
JOIN (SELECT sentence_id, text FROM @sentences) s USING (sentence_id)
LEFT JOIN (SELECT candidate_id AS positive_id, any_value(text) AS text FROM @candidates
    WHERE candidate_id IN (SELECT positive_id FROM paired) GROUP BY ALL) p USING (positive_id)
JOIN (SELECT candidate_id AS negative_id, any_value(text) AS text FROM @candidates
    WHERE candidate_id IN (SELECT negative_id FROM paired) GROUP BY ALL) n USING (negative_id)
ORDER BY triplet_id"""

_REJECTS = """
SELECT 'select' AS stage, candidate_id AS row_id, reason, detail, text
FROM (SELECT candidate_id, any_value(text) AS text FROM @candidates GROUP BY candidate_id)
JOIN refusals USING (candidate_id) ORDER BY row_id"""

_ACCEPTANCE = """
SELECT made_as AS role, method, count(*) AS candidates, count(role) AS accepted,
    count(used.candidate_id) AS used, any_value(coalesce(high, low)) AS threshold,
    quantile_cont(value, 0.1) AS similarity_p10, quantile_cont(value, 0.5) AS similarity_median,
    quantile_cont(value, 0.9) AS similarity_p90
FROM judged LEFT JOIN used USING (candidate_id)
GROUP BY ALL ORDER BY ALL"""


STAGE = Stage(
    name="select",
    config=SelectConfig,
    tables={"triplets": TRIPLETS, "acceptance": ACCEPTANCE},
    run=run,
)
