"""Stage `select`: decides which candidates become triplets; every other candidate is a reject with
a reason.

Thresholds apply to all methods, to the methods of one relation or to one method, as numbers or as
quantiles of the method's scores. A query is bounded by the rank of its passage (`round_trip`), not
by the general threshold of rewordings. Where no scorer of the recipe gives a similarity, a
probability alone decides, and columns of similarities are null. A candidate that shares a shingle
(eight words in a row, see `models/text/shingles.py`) with a text of dev or test is refused: a rule
may write such a text by chance.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import pyarrow as pa
from pydantic import Field, model_validator

from tercet.errors import InvalidSetting
from tercet.models.generation import Relation
from tercet.models.text.shingles import shared_words
from tercet.storage.rows import quoted
from tercet.tasks.config import Need, Wired
from tercet.tasks.corpus.anchors import QUERY_ID, is_query
from tercet.tasks.corpus.held_out import held_out_shingles
from tercet.tasks.stage import BadInput, Config, Stage, Work, connection

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

Key: `triplet_id`.

Columns:
    triplet_id: id of the anchor, the positive's id (or `self`) and the negative's
    sentence_id: → `sentences.sentence_id`, the anchor, or a sentence of the passage that a
        candidate with an anchor of its own is about; of a query → `passages.passage_id`
    relation: `alters`: the negative alters what the positive keeps; `topic`: the positive is only
        about the same thing; `keeps`: it keeps the meaning, and the negative, if any, is
        unrelated
    anchor: text of the anchor: the sentence, or its positive's own; with `select.both_roles` of a
        text that passed in neither role, the text itself
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
        anchor stays as it is; NULL without a negative or an evaluator, and where the anchor is a
        text that passed in neither role
"""

# Passages that may have the same query. One of these passages keeps the query; if more have it,
# none does.
SHARED = 3

# The empty scores of a recipe without scorers, whose queries nothing judges.
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

Key: `role`, `method`.

Columns:
    role: the role that the candidates were made for
    method: the method
    candidates: how many there were
    accepted: how many met the thresholds; none apply to `random` where it is kept for the
        fallback
    used: how many are in a triplet; with `select.both_roles` more than were accepted, since those
        that passed in neither role are
    threshold: the threshold as a number, quantiles resolved: `positive_min` for positives,
        `negative_max` for negatives; NULL without a threshold, so always without an evaluator
    similarity_p10: tenth percentile of its candidates' cosines; NULL where they have none
    similarity_median: their median
    similarity_p90: their ninetieth percentile
"""


class Quantile(Config):
    """A threshold at this share of the method's own scores, counted from the lowest."""

    quantile: float = Field(ge=0.0, le=1.0, description="The threshold as a quantile")


Similarity: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)] | Quantile
Bound: TypeAlias = Annotated[Similarity | None, Need("similarity", instead=None)]
Probability: TypeAlias = Annotated[float | None, Need("p_true")]


class RelationConfig(Config):
    """Thresholds of the methods of one relation; by default the general thresholds."""

    positive_min: Bound = Field(None, description="For `keeps` and `topic`")
    negative_max: Bound = Field(None, description="For `alters` and `other`")
    p_min: Probability = Field(default=None, ge=0.0, le=1.0, description="For `keeps` and `alters`")


class MethodConfig(RelationConfig):
    """Thresholds of one method; by default its relation's, then the general thresholds."""

    weight: float = Field(
        default=1.0,
        ge=0.0,
        description="Weight in the draw among a sentence's accepted candidates; 0: never drawn.",
    )


class SelectConfig(Config):
    """Thresholds, fallbacks and the choice among several accepted candidates."""

    positive_min: Bound = Field(
        default=0.9,
        description="Lowest similarity of a positive (GCSE: 0.9); no bound of queries.",
    )
    negative_max: Bound = Field(
        default=0.75, description="Highest similarity of a negative (GCSE: 0.75)."
    )
    p_min: Probability = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Lowest probability accepted that the role is right, of texts that keep or "
        "alter the meaning; others are neither true nor false.",
    )
    rank_max: Annotated[int | None, Need("rank")] = Field(
        default=None,
        ge=1,
        le=1_000,
        description="Last rank accepted of a query's own passage among all passages; null: none.",
    )
    rank: Annotated[Literal["vectors", "bm25", "fused"], Need("rank_max")] = Field(
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
    prefer: Annotated[
        Literal["draw", "similarity", "p_true"],
        Need("similarity", values=("similarity",)),
        Need("p_true", values=("p_true",)),
    ] = Field(
        default="draw",
        description="Among several accepted candidates: a seeded draw by the methods' weights; "
        "the most similar first (the surest positive, the hardest negative); or the surest of "
        "their role by p_true, those without a probability last, in the order of the draw.",
    )
    fallback_positive: bool = Field(
        default=True, description="If no positive is accepted, the anchor itself is the positive."
    )
    both_roles: bool = Field(
        default=False,
        description="A text that is refused in the role it was written for is tried in the other, "
        "and one that passes in neither becomes a row of its own: its own positive, beside its "
        "sentence's negative (GCSE, eqs. 10-11 and its code); needs pairing: role.",
    )
    # Whether a candidate needs a similarity; without a scorer of similarity no candidate has one.
    by_similarity: Wired[bool] = True
    # Largest share of its positive's similarity that a mined negative may have.
    mined_below: Wired[float] = 1.0

    @model_validator(mode="after")
    def _paired_by_role(self) -> "SelectConfig":
        if self.both_roles and self.pairing != "role":
            raise InvalidSetting(
                "conflict",
                "both_roles lets similarity decide a text's role, and pairing: relation what the "
                "text does to the meaning: set pairing to role, or leave both_roles out",
            )
        return self

    @property
    def bounds_probability(self) -> bool:
        """Whether some texts are refused by the probability that their role is right."""
        below = (*self.relations.values(), *self.methods.values())
        return self.p_min is not None or any(level.p_min is not None for level in below)

    @property
    def asks_probability(self) -> bool:
        """Whether the selection reads the probability that a role is right."""
        return self.bounds_probability or self.prefer == "p_true"


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
    names = [row[0] for row in db.execute(query, [measure]).fetchall()]
    if len(names) > 1:
        raise BadInput("bad_value", f"select: {several(measure, names)}.")
    return names


def several(measure: str, scorers: Sequence[str]) -> str:
    """The fault that several scorers give one measure, and its remedy."""
    return f"{' and '.join(scorers)} both give {measure}: name one of them as select.{measure}"


def _bound(db: Any, config: SelectConfig) -> None:
    """Table `bounds`: (role, method) with thresholds as numbers, quantiles resolved."""
    db.execute(
        """CREATE TEMP TABLE bounds(role VARCHAR, method VARCHAR, low DOUBLE, high DOUBLE,
            swaps BOOLEAN, swap_bound DOUBLE,
            p_min DOUBLE, weight DOUBLE, reserved BOOLEAN)"""
    )
    pairs = db.execute("""SELECT role, relation, method, bool_and(query_id IS NOT NULL)
        FROM scored GROUP BY ALL ORDER BY ALL""").fetchall()
    for role, relation, method, queries in pairs:
        of_method = config.methods.get(method, MethodConfig())
        # The random candidate is kept for the fallback unless the config gives it a place; a
        # fallback for a missing negative need not pass as a negative (GCSE, eq. 11).
        reserved = method == RANDOM and RANDOM not in config.methods
        general = (config.relations.get(relation, RelationConfig()), config)
        levels = () if reserved else (of_method, *general)

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
        # Questions are no rewordings: only a threshold of their method or relation applies to them.
        own_levels = levels[:2] if queries else levels
        low = number("positive_min", levels=own_levels) if positive else None
        high = None if positive else number("negative_max")
        swaps = config.both_roles and method != RANDOM and not queries
        swap_bound = number("negative_max" if positive else "positive_min") if swaps else None
        # A text that is only on the topic, or unrelated, neither follows from a sentence nor denies
        # it.
        p_min = number("p_min") if relation in JUDGED else None
        db.execute(
            "INSERT INTO bounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [role, method, low, high, swaps, swap_bound, p_min, of_method.weight, reserved],
        )


def _judge(db: Any, config: SelectConfig) -> None:
    """Table `judged`: each candidate with the role it may serve in, or the reason why it has none.

    false_text: whether it was compared in both roles and passed in neither.

    A text that several methods give in one role counts once. The candidate that counts was made for
    the role, before one that changed roles, and comes from the method of most weight. A query that
    several passages have counts once too, for the passage that it finds first; a query that more
    than `SHARED` passages have is refused.
    """
    rank_max = "NULL" if config.rank_max is None else config.rank_max
    unscored = "value IS NULL" if config.by_similarity else "FALSE"
    db.execute(
        f"""CREATE TEMP TABLE judged AS
        SELECT * REPLACE (
            CASE WHEN role IS NOT NULL AND nth > 1 THEN 'duplicate' ELSE refused END AS refused,
            CASE WHEN nth = 1 THEN role END AS role,
            -- What was meant to keep the meaning and did not is merely another text.
            CASE WHEN role = made_as OR role IS NULL THEN relation
                WHEN role = 'positive' THEN 'keeps' ELSE 'other' END AS relation,
            role IS NULL AND false_text AS false_text)
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
                WHEN s.role = 'negative' AND value > high THEN 'above_negative_max'
                WHEN weight = 0 THEN 'no_weight'
            END AS refused,
            coalesce(swaps AND weight > 0 AND anchor_id IS NULL AND refused IN
                ('below_positive_min', 'above_negative_max', 'below_p_min'), FALSE) AS false_text,
            CASE WHEN refused IS NULL THEN s.role
                WHEN false_text AND s.role = 'positive'
                    AND (swap_bound IS NULL OR value <= swap_bound)
                    AND (p_min IS NULL OR 1 - p_true >= p_min) THEN 'negative'
                WHEN false_text AND s.role = 'negative'
                    AND (swap_bound IS NULL OR value >= swap_bound)
                    AND (p_min IS NULL OR p_true >= p_min) THEN 'positive'
            END AS role
        FROM scored s JOIN bounds b ON s.role = b.role AND s.method = b.method))"""
    )


# Candidates whose words are in memory at once; with their anchors, which may be passages as well.
_ROWS = 8_192


def find_held_out(db: Any, work: Work) -> None:
    """Table `held_out`: candidates that share a shingle with dev or test, and its words."""
    db.execute("CREATE TEMP TABLE held_out(candidate_id UBIGINT, words VARCHAR)")
    known = held_out_shingles(db, work)
    if not len(known):
        return
    candidates = work.inputs["candidates"]
    for batch in candidates.batches("candidates", ["candidate_id", "anchor", "text"], _ROWS):
        # A candidate's own anchor is trained on too, so it is compared as well.
        both = pa.concat_arrays([batch["text"], batch["anchor"].fill_null("")])
        rows, words = shared_words(both, known)
        if len(rows):
            ids = batch["candidate_id"].take(pa.array(rows % batch.num_rows))
            db.register("found", pa.table({"candidate_id": ids, "words": words}))
            db.execute("INSERT INTO held_out SELECT candidate_id, words FROM found")
            db.unregister("found")


# The rules by which accepted candidates are put into one triplet.
#
# By role (GCSE, section 3.2, eqs. 10-11): accepted positives and negatives of a sentence are paired
# by rank. Where one side is empty, or both have one text, the negative falls back to the `random`
# candidate and the positive to the sentence itself, if the config allows it.
#
# By relation: a text with a changed fact is known to be farther away only than a positive that
# keeps the meaning, so the two are paired. A positive that keeps the meaning but has no altered
# text, or that is only on the topic, is paired with an unrelated text if there is one. Otherwise
# the other rows of the batch are its negatives. A candidate with its own anchor, which a language
# model answered, is compared and paired with that anchor alone.

RANDOM = "random"
MINED = "mined"

# The order of candidates by `select.prefer`. p_true is the probability that the meaning is the
# same.
_ORDERS = {
    "draw": "race, candidate_id",
    "similarity": "value DESC, candidate_id",
    "p_true": "CASE role WHEN 'positive' THEN p_true ELSE 1 - p_true END DESC NULLS LAST, "
    "race, candidate_id",
}


def pair(db: Any, config: SelectConfig, seed: int) -> None:
    """Tables `paired`, `used` and `refusals`, from the table `judged`.

    paired: sentence, rank, relation, positive and negative; null where the positive is the
        sentence itself, and where there is no negative.
    used: the candidates that these hold. refusals: reason and detail of each other candidate.
    """
    _rank(db, config, seed)
    # `random` never gives a candidate to a sentence without other candidates, so these are all.
    db.execute(
        """CREATE TEMP TABLE spare AS
        SELECT sentence_id, arg_min(candidate_id, candidate_id) AS candidate_id,
            arg_min(value, candidate_id) AS value, arg_min(text_id, candidate_id) AS text_id
        FROM judged WHERE reserved AND role = 'negative' GROUP BY sentence_id"""
    )
    db.execute("CREATE TEMP TABLE displaced(candidate_id UBIGINT)")
    if config.pairing == "role":
        _by_role(db, config)
    else:
        _by_relation(db, config)
    _refuse(db, config)


def _rank(db: Any, config: SelectConfig, seed: int) -> None:
    """Table `ranked`: accepted candidates with their rank among their competitors.

    Competitors have the same sentence and role, and with pairing by relation the same relation. The
    draw is an exponential race: the smallest -ln(u) / weight wins, with the method's weight shared
    among its candidates of the sentence, so that many candidates do not outvote few.
    """
    order = _ORDERS[config.prefer]
    group = "sentence_id, anchor_id, role" + (", relation" if config.pairing == "relation" else "")
    db.execute(
        f"""CREATE TEMP TABLE ranked AS
        SELECT candidate_id, sentence_id, anchor_id, role, relation, method, text_id, value,
            row_number() OVER (PARTITION BY {group} ORDER BY {order}) AS rank,
            count(*) OVER (PARTITION BY {group}) AS rivals
        FROM (SELECT *,
                -ln(((md5_number_lower('{seed}' || chr(31) || 'select' || chr(31)
                    || candidate_id::VARCHAR) >> 11)::DOUBLE + 0.5) / 9007199254740992.0)
                * count(*) OVER (PARTITION BY {group}, method) / weight AS race
            FROM judged WHERE role IS NOT NULL AND NOT reserved AND method <> '{MINED}')"""
    )


def _by_role(db: Any, config: SelectConfig) -> None:
    """Table `pairs`: each accepted positive with the accepted negative of its rank; and
    `displaced`: candidates that gave way to a fallback.

    The random candidate stands in at any rank where a negative is missing, or says what the
    positive says; where that does not help, the sentence itself stands in for the positive. If both
    sides have one text, the negative gives way first: a rewording that counts as a contrast does
    more harm than a contrast that is missed. A sentence with nothing accepted still gets one pair
    when the positive may fall back, too, as in the paper.
    """
    allowed = "TRUE" if config.fallback_positive else "FALSE"
    nothing = "UNION SELECT sentence_id, 1 FROM spare" if config.fallback_positive else ""
    # A sentence's id is that of its text.
    db.execute(
        f"""CREATE TEMP TABLE met AS
        WITH ranks AS (
            SELECT DISTINCT sentence_id, rank FROM ranked WHERE rank <= {config.per_sentence}
            {nothing}
        ), sides AS (
            SELECT sentence_id, rank, p.candidate_id AS p_id, p.text_id AS p_text,
                p.method AS p_method, p.relation AS p_relation, p.value AS p_value,
                n.candidate_id AS n_id, n.text_id AS n_text, n.method AS n_method,
                n.relation AS n_relation, n.value AS n_value,
                s.candidate_id AS s_id, s.text_id AS s_text, s.value AS s_value
            FROM ranks
            LEFT JOIN (SELECT * FROM ranked WHERE role = 'positive') p USING (sentence_id, rank)
            LEFT JOIN (SELECT * FROM ranked WHERE role = 'negative') n USING (sentence_id, rank)
            LEFT JOIN spare s USING (sentence_id)
        ), negatives AS (
            SELECT *, n_id IS NULL
                OR (s_id IS NOT NULL AND n_text = coalesce(p_text, sentence_id)) AS is_random
            FROM sides
        )
        SELECT *, CASE WHEN is_random THEN s_text ELSE n_text END AS negative_text,
            p_id IS NULL OR ({allowed} AND p_text = negative_text) AS is_self
        FROM negatives
        WHERE (p_id IS NOT NULL OR {allowed}) AND (NOT is_random OR s_id IS NOT NULL)"""
    )
    db.execute(
        f"""CREATE TEMP TABLE pairs AS
        SELECT sentence_id, rank,
            CASE WHEN NOT is_self AND p_relation = 'topic' THEN 'topic'
                WHEN NOT is_random AND n_relation = 'alters' THEN 'alters' ELSE 'keeps' END
                AS relation,
            CASE WHEN NOT is_self THEN p_id END AS positive_id,
            CASE WHEN is_self THEN 'self' ELSE p_method END AS positive_method,
            CASE WHEN is_self THEN 1.0 ELSE p_value END AS positive_similarity,
            CASE WHEN is_random THEN s_id ELSE n_id END AS negative_id,
            CASE WHEN is_random THEN '{RANDOM}' ELSE n_method END AS negative_method,
            CASE WHEN is_random THEN s_value ELSE n_value END AS negative_similarity,
            CASE WHEN is_self THEN sentence_id ELSE p_text END = negative_text AS same_text,
            FALSE AS own_anchor
        FROM met"""
    )
    _keep_false_texts(db)
    db.execute(
        """INSERT INTO displaced SELECT n_id FROM met WHERE is_random AND n_id IS NOT NULL
        UNION SELECT p_id FROM met WHERE is_self AND p_id IS NOT NULL"""
    )


def _keep_false_texts(db: Any) -> None:
    """Adds to `pairs` each text that passed in neither role, with itself and the negative of its
    sentence's first pair.

    The similarity of the two is not known: it was compared with its sentence alone.
    """
    db.execute(
        """INSERT INTO pairs BY NAME
        SELECT f.sentence_id, NULL AS rank, 'keeps' AS relation, f.candidate_id AS positive_id,
            f.method AS positive_method, 1.0 AS positive_similarity, p.negative_id,
            p.negative_method, NULL AS negative_similarity, f.text_id = n.text_id AS same_text,
            TRUE AS own_anchor
        FROM (FROM judged WHERE false_text
            QUALIFY row_number() OVER (PARTITION BY sentence_id, text_id ORDER BY candidate_id) = 1)
            f
        JOIN (FROM pairs WHERE rank = 1 QUALIFY row_number() OVER (
                PARTITION BY sentence_id ORDER BY positive_id NULLS FIRST) = 1)
            p ON p.sentence_id = f.sentence_id
        JOIN judged n ON n.candidate_id = p.negative_id
        WHERE f.text_id <> f.sentence_id AND NOT EXISTS (FROM ranked r
            WHERE r.sentence_id = f.sentence_id AND r.text_id = f.text_id)"""
    )


def _by_relation(db: Any, config: SelectConfig) -> None:
    """Table `pairs`: altered texts with texts that keep the meaning, other positives with unrelated
    texts.

    If there are fewer texts that keep the meaning, several altered texts share one. A mined text is
    the negative of a positive that is nearer than it.
    """
    allowed = "TRUE" if config.fallback_positive else "p.candidate_id IS NOT NULL"
    share = config.mined_below
    db.execute(
        f"""CREATE TEMP TABLE pairs AS
        WITH positive AS (
            SELECT * FROM ranked WHERE role = 'positive'
        ), altered AS (
            SELECT * FROM ranked WHERE relation = 'alters' AND rank <= {config.per_sentence}
        ), kept AS (
            SELECT * FROM positive WHERE relation = 'keeps'
        ), strict AS (
            SELECT n.sentence_id, n.rank, 'alters' AS relation, p.candidate_id AS positive_id,
                p.method AS positive_method, p.value AS positive_similarity,
                p.text_id AS positive_text, n.candidate_id AS negative_id,
                n.method AS negative_method, n.value AS negative_similarity,
                n.text_id AS negative_text
            FROM altered n LEFT JOIN kept p ON p.sentence_id = n.sentence_id
                AND p.rank = (n.rank - 1) % p.rivals + 1
            WHERE {allowed}
        ), lone AS (
            SELECT * FROM positive WHERE rank <= {config.per_sentence}
                AND candidate_id NOT IN (
                    SELECT positive_id FROM strict WHERE positive_id IS NOT NULL)
        ), unrelated AS (
            SELECT * FROM ranked WHERE role = 'negative' AND relation = 'other'
                AND anchor_id IS NULL
        ), mined AS (
            SELECT p.candidate_id AS positive_id, max_by(m, m.value) AS m
            FROM lone p JOIN judged m ON m.sentence_id = p.sentence_id AND m.role = 'negative'
                AND m.method = '{MINED}' AND m.value < {share} * p.value AND p.relation = 'topic'
                AND p.anchor_id IS NULL
            GROUP BY p.candidate_id
        ), contrasted AS (
            SELECT p.sentence_id, p.rank, p.relation, p.candidate_id AS positive_id,
                p.method AS positive_method, p.value AS positive_similarity,
                p.text_id AS positive_text, coalesce(m.m.candidate_id, n.candidate_id)
                    AS negative_id,
                coalesce(m.m.method, n.method) AS negative_method,
                CASE WHEN m.m IS NULL THEN n.value ELSE m.m.value END AS negative_similarity,
                coalesce(m.m.text_id, n.text_id) AS negative_text
            FROM lone p LEFT JOIN mined m ON m.positive_id = p.candidate_id
            LEFT JOIN unrelated n ON n.sentence_id = p.sentence_id AND n.rank = p.rank
                AND p.anchor_id IS NULL
        )
        SELECT sentence_id, rank, relation, positive_id,
            coalesce(positive_method, 'self') AS positive_method,
            CASE WHEN positive_id IS NULL THEN 1.0 ELSE positive_similarity END
                AS positive_similarity,
            negative_id, negative_method, negative_similarity,
            coalesce(coalesce(positive_text, sentence_id) = negative_text, FALSE) AS same_text,
            FALSE AS own_anchor
        FROM (SELECT * FROM strict UNION ALL SELECT * FROM contrasted)"""
    )


def _refuse(db: Any, config: SelectConfig) -> None:
    """Tables `paired`, `used` and `refusals`. A pair of one text twice makes no triplet."""
    for table, condition in (("paired", "NOT same_text"), ("alike", "same_text")):
        db.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM pairs WHERE {condition}")
    for table, source in (("used", "paired"), ("unpaired", "alike")):
        db.execute(
            f"""CREATE TEMP TABLE {table} AS
            SELECT positive_id AS candidate_id FROM {source} WHERE positive_id IS NOT NULL
            UNION SELECT negative_id FROM {source} WHERE negative_id IS NOT NULL"""
        )
    # Null, and therefore left out, if no scorer of the recipe gives a similarity.
    similarity = "printf('similarity %.4f', j.value)"
    db.execute("INSERT INTO unpaired SELECT candidate_id FROM displaced EXCEPT FROM unpaired")
    # `reason` of each candidate that no triplet holds, with the number and the bound it met.
    db.execute(
        f"""CREATE TEMP TABLE refusals AS
        SELECT j.candidate_id,
            CASE WHEN j.role IS NULL THEN refused
                WHEN u.candidate_id IS NOT NULL THEN 'same_text'
                WHEN j.reserved THEN 'unused_fallback'
                WHEN j.method = '{MINED}' THEN 'surplus'
                WHEN r.rank <= {config.per_sentence} THEN 'no_pair'
                ELSE 'surplus' END AS reason,
            CASE reason
                WHEN 'no_score' THEN 'it has no score'
                WHEN 'held_out_text' THEN 'also in dev or test: ' || words
                WHEN 'common_query' THEN printf('%d passages have it', sharing)
                WHEN 'duplicate' THEN CASE WHEN query_id IS NULL
                    THEN 'another method gave the same text in this role'
                    ELSE 'another passage, or another method, has the same query' END
                WHEN 'same_text' THEN 'it was paired with the same text in the other role'
                WHEN 'below_p_min' THEN printf('probability %.4f, below %.4f',
                    CASE made_as WHEN 'positive' THEN p_true ELSE 1 - p_true END, p_min)
                WHEN 'above_negative_max' THEN printf('similarity %.4f, above %.4f',
                    j.value, high)
                WHEN 'beyond_rank_max' THEN printf('rank %d by {config.rank}, beyond %d',
                    passage_rank::INTEGER, {config.rank_max or 0})
                WHEN 'no_weight' THEN 'its method has the weight 0'
                WHEN 'unused_fallback' THEN concat_ws(', ', {similarity}, 'not needed')
                WHEN 'no_pair' THEN 'nothing was accepted that it could be paired with'
                WHEN 'surplus' THEN concat_ws(', ', {similarity},
                    coalesce(printf('rank %d of its role', r.rank), 'not needed'))
                ELSE printf('similarity %.4f, below %.4f', j.value, low) END AS detail
        FROM judged j LEFT JOIN ranked r USING (candidate_id)
        LEFT JOIN unpaired u USING (candidate_id)
        WHERE j.candidate_id NOT IN (SELECT candidate_id FROM used)"""
    )


_TRIPLETS = """
SELECT md5_number_lower(concat_ws(chr(31), sentence_id::VARCHAR,
        coalesce(positive_id::VARCHAR, 'self'), coalesce(negative_id::VARCHAR, 'none')))
        AS triplet_id,
    sentence_id, relation,
    CASE WHEN own_anchor THEN p.text ELSE coalesce(p.anchor, s.text) END AS anchor,
    coalesce(p.text, s.text) AS positive,
    n.text AS negative, positive_id, negative_id, positive_method, negative_method,
    positive_similarity, negative_similarity
FROM paired
LEFT JOIN (SELECT sentence_id, text FROM @sentences) s USING (sentence_id)
LEFT JOIN (SELECT candidate_id AS positive_id, any_value(text) AS text,
        any_value(anchor) AS anchor FROM @candidates
    WHERE candidate_id IN (SELECT positive_id FROM paired) GROUP BY ALL) p USING (positive_id)
LEFT JOIN (SELECT candidate_id AS negative_id, any_value(text) AS text FROM @candidates
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

# By the table that each fills; @ stands before an input's name.
QUERIES = {"triplets": _TRIPLETS, "rejects": _REJECTS, "acceptance": _ACCEPTANCE}


STAGE = Stage(
    name="select",
    config=SelectConfig,
    tables={"triplets": TRIPLETS, "acceptance": ACCEPTANCE},
    run=run,
)
