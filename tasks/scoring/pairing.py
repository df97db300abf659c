"""Which accepted candidates stand in one triplet.

By role (GCSE, section 3.2, eqs. 10-11): accepted positives and negatives of a sentence are paired
by rank. Where one side is empty, or both have one text, the negative falls back to the `random`
candidate and the positive to the sentence itself, if the config allows it.

By relation: a text with a changed fact is known to be farther away only than a positive that keeps
the meaning, so the two are paired. A positive that keeps the meaning but has no altered text, or
that is only on the topic, is paired with an unrelated text if there is one. Otherwise it has no
negative of its own: the other rows of the batch are its negatives. A candidate with an anchor of
its own, an answer of a language model, is compared and paired with that alone.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tercet.tasks.scoring.select import PairedConfig

RANDOM = "random"
MINED = "mined"

# By `select.prefer`. A probability is that of the meaning being the same.
_ORDERS = {
    "draw": "race, candidate_id",
    "similarity": "value DESC, candidate_id",
    "p_true": "CASE role WHEN 'positive' THEN p_true ELSE 1 - p_true END DESC NULLS LAST, "
    "race, candidate_id",
}


def pair(db: Any, config: "PairedConfig", seed: int) -> None:
    """Tables `paired`, `used` and `refusals`, from the table `judged`.

    paired: sentence, rank, relation, positive and negative; null where the positive is the
        sentence itself, and where there is no negative.
    used: the candidates that these hold. refusals: reason and detail of each other candidate.
    """
    _rank(db, config, seed)
    # A sentence without candidates of its own never has one, so that these are all of them.
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


def _rank(db: Any, config: "PairedConfig", seed: int) -> None:
    """Table `ranked`: accepted candidates with their rank among those they compete with.

    These are of their sentence and role, and with pairing by relation of their relation too. The
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


def _by_role(db: Any, config: "PairedConfig") -> None:
    """Table `pairs`: any accepted positive with the accepted negative of its rank; and `displaced`,
    those of them that gave way to a fallback.

    The random candidate stands in at any rank where a negative is missing, or says what the
    positive says; where that does not help, the sentence itself stands in for the positive. Of two
    sides with one text the negative gives way first: a rewording that counts as a contrast does
    more harm than a contrast that is missed. A sentence with nothing accepted still gets one pair
    when both fallbacks are allowed, as in the paper.
    """
    allowed = "TRUE" if config.fallback_positive else "FALSE"
    spare = "s.candidate_id" if config.fallback_negative is not False else "NULL::UBIGINT"
    nothing = (
        "UNION SELECT sentence_id, 1 FROM spare"
        if config.fallback_positive and config.fallback_negative is not False
        else ""
    )
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
                {spare} AS s_id, s.text_id AS s_text, s.value AS s_value
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
            CASE WHEN is_self THEN sentence_id ELSE p_text END = negative_text AS same_text
        FROM met"""
    )
    db.execute(
        """INSERT INTO displaced SELECT n_id FROM met WHERE is_random AND n_id IS NOT NULL
        UNION SELECT p_id FROM met WHERE is_self AND p_id IS NOT NULL"""
    )


def _by_relation(db: Any, config: "PairedConfig") -> None:
    """Table `pairs`: what alters with what keeps, and the other positives with what is unrelated.

    Several altered texts share a kept one where there are fewer of these. A mined text is the
    negative of the positive that it is farther away than.
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
            coalesce(coalesce(positive_text, sentence_id) = negative_text, FALSE) AS same_text
        FROM (SELECT * FROM strict UNION ALL SELECT * FROM contrasted)"""
    )


def _refuse(db: Any, config: "PairedConfig") -> None:
    """Tables `paired`, `used` and `refusals`. A pair of one text twice makes no triplet."""
    for table, condition in (("paired", "NOT same_text"), ("alike", "same_text")):
        db.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM pairs WHERE {condition}")
    for table, source in (("used", "paired"), ("unpaired", "alike")):
        db.execute(
            f"""CREATE TEMP TABLE {table} AS
            SELECT positive_id AS candidate_id FROM {source} WHERE positive_id IS NOT NULL
            UNION SELECT negative_id FROM {source} WHERE negative_id IS NOT NULL"""
        )
    # Null, and so left out, where the recipe has no scorer that gives one.
    said = "printf('similarity %.4f', j.value)"
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
                WHEN 'unused_fallback' THEN concat_ws(', ', {said}, 'not needed')
                WHEN 'no_pair' THEN 'nothing was accepted that it could be paired with'
                WHEN 'surplus' THEN concat_ws(', ', {said},
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
    sentence_id, relation, coalesce(p.anchor, s.text) AS anchor,
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
