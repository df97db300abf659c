"""Stage `select`: which candidates become triplets; each of the others is a reject with a reason.

Thresholds apply to all methods, to those of one relation or to one, as numbers or as quantiles of
the method's scores. A query is bounded by the rank of its passage (`round_trip`), not by the
general threshold of rewordings. Where no scorer of the recipe gives a similarity, a probability
alone decides, and columns of similarities are null. A candidate that shares a shingle (eight words
in a row, see `models/text/shingles.py`) with a text of dev or test is refused: a rule may write by
chance what stands there. How accepted candidates are paired is in `pairing.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import Field

from tercet.models.generation import Relation
from tercet.storage.rows import quoted
from tercet.tasks.connections import connection
from tercet.tasks.corpus.queries import QUERY_ID, is_query
from tercet.tasks.scoring.held_out import find_held_out
from tercet.tasks.scoring.pairing import QUERIES, RANDOM, pair
from tercet.tasks.stage import BadInput, Config, Stage, Work

TRIPLETS = pa.schema(
    [
        ("triplet_id", pa.uint64()),
        ("sentence_id", pa.uint64()),
        ("relation", pa.string()),
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
"""Table `triplets`.

Columns:
    triplet_id: id of the anchor, the positive's id (or `self`) and the negative's
    sentence_id: → `sentences.sentence_id`, the anchor, or a sentence of the passage that a
        candidate with an anchor of its own is about; of a query → `passages.passage_id`
    relation: `alters`: the negative alters what the positive keeps; `topic`: the positive is only
        about the same thing; `keeps`: it keeps the meaning, and the negative, if any, is
        unrelated
    anchor: text of the anchor: the sentence, or its positive's own
    positive: text of the positive; the anchor's own if none was accepted and the recipe allows
        that
    negative: text of the negative; NULL where other rows of the batch are the only ones; with
        `pairing: role` the random sentence's if none was accepted and the recipe allows that
    positive_id: → `candidates.candidate_id`; NULL if the positive is the anchor itself
    negative_id: → `candidates.candidate_id`; NULL without a negative
    positive_method: the method, or `self`
    negative_method: the method; `random` for the fallback; NULL without a negative
    positive_similarity: the similarity to the anchor by the scorer that `select.similarity` names
        (by default the evaluator); 1 for `self`; NULL where the recipe has no evaluator
    negative_similarity: the negative's similarity, which training uses as the teacher's where the
        anchor stays as it is; NULL without a negative or an evaluator
"""

# Passages that may have the same query. One of them keeps it; of more, none.
SHARED = 3

# Of a recipe without scorers, whose queries nothing judges.
_UNSCORED = """(SELECT NULL::UBIGINT AS candidate_id, NULL::VARCHAR AS scorer,
    NULL::VARCHAR AS measure, NULL::DOUBLE AS value WHERE FALSE)"""

# The relations of which a probability says anything.
JUDGED: Sequence[Relation] = ("keeps", "alters")

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
"""Table `acceptance`. One row per method and role: how many of its candidates selection accepted
and used.

Columns:
    role: the role that the candidates were made for
    method: the method
    candidates: how many there were
    accepted: how many met the thresholds; none apply to `random` where it is kept for the
        fallback
    used: how many are in a triplet
    threshold: the threshold as a number, quantiles resolved: `positive_min` for positives,
        `negative_max` for negatives (without one, `negative_min`); NULL without a threshold, so
        always without an evaluator
    similarity_p10: tenth percentile of its candidates' cosines; NULL where they have none
    similarity_median: their median
    similarity_p90: their ninetieth percentile
"""


class Quantile(Config):
    """A threshold at this share of the method's own scores, counted from the lowest."""

    quantile: float = Field(ge=0.0, le=1.0, description="The threshold as a quantile")


Similarity: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)] | Quantile
Bound: TypeAlias = Similarity | None


def _cosine(description: str, default: float | None) -> Any:
    return Field(default=default, description=description)


class RelationConfig(Config):
    """Thresholds of the methods of one relation; those left out are the general ones."""

    positive_min: Bound = Field(None, description="For `keeps` and `topic`")
    negative_min: Bound = Field(None, description="For `alters` and `other`")
    negative_max: Bound = Field(None, description="For `alters` and `other`")
    p_min: float | None = Field(
        default=None, ge=0.0, le=1.0, description="For `keeps` and `alters`"
    )


class MethodConfig(RelationConfig):
    """Thresholds of one method; those left out are its relation's, then the general ones."""

    weight: float = Field(
        default=1.0,
        ge=0.0,
        description="Weight in the draw among a sentence's accepted candidates; 0: never drawn.",
    )


class SelectConfig(Config):
    """Thresholds, fallbacks and the choice among several accepted candidates."""

    positive_min: Bound = _cosine(
        "Lowest similarity of a positive (GCSE: 0.9); no bound of queries.", 0.9
    )
    negative_min: Bound = _cosine("Lowest similarity of a negative; null: none.", None)
    negative_max: Bound = _cosine("Highest similarity of a negative (GCSE: 0.75).", 0.75)
    p_min: float | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Lowest probability accepted that the role is right, of texts that keep or "
        "alter the meaning; others are neither true nor false.",
    )
    rank_max: int | None = Field(
        default=None,
        ge=1,
        le=1_000,
        description="Last rank accepted of a query's own passage among all passages; null: none.",
    )
    rank: Literal["vectors", "bm25", "fused"] = Field(
        default="vectors", description="How `rank_max` takes the passages to be searched."
    )
    similarity: str | None = Field(
        default=None,
        description="The scorer whose similarity is used; null: the only one that gives it.",
    )
    p_true: str | None = Field(
        default=None,
        description="The scorer whose probability is used; null: the only one that gives it.",
    )
    relations: Mapping[Relation, RelationConfig] = Field(
        default_factory=dict, description="Thresholds by what a text does to the meaning."
    )
    methods: Mapping[str, MethodConfig] = Field(
        default_factory=dict, description="Thresholds by method"
    )
    pairing: Literal["relation", "role"] = Field(
        default="relation",
        description="relation: a text that alters the meaning stands against one that keeps it, "
        "and a text on the topic against none or a mined one; role (GCSE): any accepted positive "
        "against any accepted negative.",
    )
    per_sentence: int = Field(
        default=1, ge=1, le=64, description="Most triplets per anchor, of each relation."
    )
    prefer: Literal["draw", "similarity", "p_true"] = Field(
        default="draw",
        description="Among several accepted candidates: a seeded draw by the methods' weights; "
        "the most similar first (the surest positive, the hardest negative); or the surest of "
        "their role by p_true, those without a probability last, in the order of the draw.",
    )
    fallback_positive: bool = Field(
        default=True, description="If no positive is accepted, the anchor itself is the positive."
    )
    fallback_negative: bool | None = Field(
        default=None,
        description="If no negative is accepted, the random candidate is the negative; null: yes "
        "with pairing: role, the only one that has this.",
    )
    swap_roles: tuple[str, ...] = Field(
        default=(),
        description="Methods whose refused positives may become negatives; a change of meaning "
        "never becomes a positive.",
    )


class PairedConfig(SelectConfig):
    """The same with what the recipe says elsewhere."""

    by_similarity: bool = Field(
        default=True,
        description="Whether a candidate needs a similarity; without a scorer of it none has one.",
    )
    mined_below: float = Field(
        default=1.0, gt=0.0, le=1.0, description="Largest share of its positive's similarity."
    )


def run(work: Work) -> None:
    """Triplets, rejects and each method's acceptance, by SQL over candidates and scores."""
    with connection(work) as db:
        db.execute("SET preserve_insertion_order = false")
        find_held_out(db, work)
        _load(db, work)
        _bound(db, work.config)
        _judge(db, work.config)
        pair(db, work.config, work.seed)
        for table, query in QUERIES.items():
            for name, rows in work.inputs.items():
                query = query.replace(f"@{name}", rows.sql(name))
            for batch in db.sql(query).to_arrow_reader(work.resources.part_rows):
                if batch.num_rows:
                    work.emit(table, pa.Table.from_batches([batch]))


def _load(db: Any, work: Work) -> None:
    """Table `scored`: one row per candidate, without its text, with its scores if it has any."""
    candidates = work.inputs["candidates"]
    scores = work.inputs["scores"].sql("scores") if "scores" in work.inputs else _UNSCORED
    config: SelectConfig = work.config
    of_query = is_query(work.inputs["passages"]) if "passages" in work.inputs else "FALSE"
    asked = [
        f"({quoted(measure)}, {quoted(scorer)})"
        for measure, named in (("similarity", config.similarity), ("p_true", config.p_true))
        for scorer in _scorers(db, scores, measure, named)
    ] or ["(NULL, NULL)"]
    judged = ", ".join(quoted(relation) for relation in JUDGED)
    db.execute(
        f"""CREATE TEMP TABLE scored AS
            SELECT candidate_id, sentence_id, anchor_id, role, relation, method, text_id, value,
                CASE WHEN relation IN ({judged}) THEN p_true END AS p_true, passage_rank,
                words, query_id, sharing
            FROM (SELECT candidate_id, any_value(sentence_id) AS sentence_id,
                    any_value(role) AS role, any_value(relation) AS relation,
                    any_value(method) AS method,
                    any_value(md5_number_lower(anchor)) AS anchor_id,
                    any_value(md5_number_lower(text)) AS text_id,
                    any_value(CASE WHEN {of_query} THEN {QUERY_ID} END) AS query_id
                FROM {candidates.sql("candidates")} GROUP BY candidate_id)
            LEFT JOIN (SELECT {QUERY_ID} AS query_id, count(DISTINCT sentence_id) AS sharing
                FROM {candidates.sql("candidates")} WHERE {of_query} GROUP BY query_id)
            USING (query_id)
            LEFT JOIN (SELECT candidate_id,
                    any_value(value) FILTER (measure = 'similarity') AS value,
                    any_value(value) FILTER (measure = 'p_true') AS p_true,
                    any_value(value) FILTER (measure = 'rank_{config.rank}') AS passage_rank
                FROM {scores}
                WHERE NOT isnan(value) AND ((measure, scorer) IN ({", ".join(asked)})
                    OR starts_with(measure, 'rank_'))
                GROUP BY candidate_id)
            USING (candidate_id)
            LEFT JOIN (SELECT candidate_id, min(words) AS words FROM held_out
                GROUP BY candidate_id)
            USING (candidate_id)"""
    )


def _scorers(db: Any, scores: str, measure: str, named: str | None) -> list[str]:
    """The one scorer whose measure counts; none where there are no such scores.

    scores: their table, in SQL.

    Raises: BadInput where several have given the measure and none is named.
    """
    if named is not None:
        return [named]
    query = f"SELECT DISTINCT scorer FROM {scores} WHERE measure = ? ORDER BY scorer"
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
            swaps BOOLEAN, swap_low DOUBLE, swap_high DOUBLE,
            p_min DOUBLE, weight DOUBLE, reserved BOOLEAN)"""
    )
    pairs = db.execute("""SELECT role, relation, method, bool_and(query_id IS NOT NULL)
        FROM scored GROUP BY ALL ORDER BY ALL""").fetchall()
    for role, relation, method, queries in pairs:
        own = config.methods.get(method, MethodConfig())
        # The random candidate is kept for the fallback unless the config gives it a place; what
        # stands in for the lack of a negative need not pass for one (GCSE, eq. 11).
        reserved = method == RANDOM and RANDOM not in config.methods
        general = (config.relations.get(relation, RelationConfig()), config)
        levels = () if reserved else (own, *general)

        def number(
            name: str, role: str = role, method: str = method, levels: Any = levels
        ) -> float | None:
            bound: Bound = next(
                (found for level in levels if (found := getattr(level, name)) is not None), None
            )
            if not isinstance(bound, Quantile):
                return bound
            return db.execute(  # type: ignore[no-any-return]
                "SELECT quantile_cont(value, ?) FROM scored WHERE role = ? AND method = ?",
                [bound.quantile, role, method],
            ).fetchone()[0]

        positive = role == "positive"
        # Questions are no rewordings: only a threshold that is meant for them is one of theirs.
        own_levels = levels[:2] if queries else levels
        low = number("positive_min", levels=own_levels) if positive else number("negative_min")
        high = None if positive else number("negative_max")
        swaps = positive and method in config.swap_roles
        swap_low = number("negative_min") if swaps else None
        swap_high = number("negative_max") if swaps else None
        # What is only on the topic, or unrelated, neither follows from a sentence nor denies it.
        p_min = number("p_min") if relation in JUDGED else None
        db.execute(
            "INSERT INTO bounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [role, method, low, high, swaps, swap_low, swap_high, p_min, own.weight, reserved],
        )


def _judge(db: Any, config: PairedConfig) -> None:
    """Table `judged`: each candidate with the role it may serve in, or the reason why it has none.

    A text that several methods give in one role counts once; a candidate made for the role comes
    before one that changed roles, and the method of more weight before the others. So does a query
    of several passages: the one that it finds first. What more than `SHARED` have finds none.
    """
    rank_max = "NULL" if config.rank_max is None else config.rank_max
    unscored = "value IS NULL" if config.by_similarity else "FALSE"
    db.execute(
        f"""CREATE TEMP TABLE judged AS
        SELECT * REPLACE (
            CASE WHEN role IS NOT NULL AND nth > 1 THEN 'duplicate' ELSE refused END AS refused,
            CASE WHEN nth = 1 THEN role END AS role,
            -- What was meant to keep the meaning and did not is merely another text.
            CASE WHEN role <> made_as THEN 'other' ELSE relation END AS relation)
        FROM (SELECT *, row_number() OVER (PARTITION BY role, query_id,
                CASE WHEN query_id IS NULL THEN sentence_id END,
                CASE WHEN query_id IS NULL THEN anchor_id END,
                CASE WHEN query_id IS NULL THEN text_id END
                ORDER BY reserved, made_as <> role, weight DESC, passage_rank, candidate_id) AS nth
        FROM (SELECT candidate_id, sentence_id, anchor_id, s.role AS made_as, relation, s.method,
            text_id, value, p_true, weight, reserved, low, high, p_min, words, query_id, sharing,
            passage_rank,
            CASE WHEN words IS NOT NULL THEN 'held_out_text'
                WHEN sharing > {SHARED} THEN 'common_query'
                WHEN passage_rank > {rank_max} THEN 'beyond_rank_max'
                WHEN {unscored} THEN 'no_score'
                WHEN p_min IS NOT NULL AND p_true IS NULL THEN 'no_score'
                WHEN (CASE s.role WHEN 'positive' THEN p_true ELSE 1 - p_true END) < p_min
                    THEN 'below_p_min'
                WHEN s.role = 'positive' AND value < low THEN 'below_positive_min'
                WHEN s.role = 'negative' AND value < low THEN 'below_negative_min'
                WHEN s.role = 'negative' AND value > high THEN 'above_negative_max'
                WHEN weight = 0 THEN 'no_weight'
            END AS refused,
            CASE WHEN refused IS NULL THEN s.role
                WHEN refused IN ('below_positive_min', 'below_p_min') AND swaps AND weight > 0
                    AND (swap_low IS NULL OR value >= swap_low)
                    AND (swap_high IS NULL OR value <= swap_high)
                    AND (p_min IS NULL OR 1 - p_true >= p_min) THEN 'negative'
            END AS role
        FROM scored s JOIN bounds b ON s.role = b.role AND s.method = b.method))"""
    )


STAGE = Stage(
    name="select",
    config=PairedConfig,
    tables={"triplets": TRIPLETS, "acceptance": ACCEPTANCE},
    run=run,
)
