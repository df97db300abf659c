"""The whole GCSE chain with a language model that obeys, and what comes out of each stage.

The model is `obeying_server`, which knows what each sentence of the corpus mentions.
"""

import json
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from obeying_server import KINDS, TYPES, Obeying, obeying_server, singular
from small_suites import write_sts
from tiny_run import Tiny, query, write_corpus

from tercet.flows.running.arguments import RunArguments
from tercet.flows.running.run_plan import prepare
from tercet.flows.running.runner import open_run, run_steps
from tercet.models.english.inflection import plural

METHODS = (
    *("rewrite", "precede", "from_knowledge", "antisense", "entity_revision"),
    *("quantity_revision", "from_changed_knowledge"),
)
POSITIVE = {"rewrite", "precede", "from_knowledge"}
ANCHORS = 40


def sentence(draw: random.Random) -> str:
    """One of five shapes with words of `KINDS`."""
    one = {kind: draw.sample(words.split(), 2) for kind, words in KINDS.items()}
    person, place, tool, animal = (one[kind][0] for kind in ("person", "place", "tool", "animal"))
    number = draw.randint(2, 900)
    return draw.choice(
        [
            f"The {person} bought {number} {plural(one['food'][0])} in {place}.",
            f"In {place} the {tool} weighed {number} kilograms.",
            f"Every {person} likes the {animal} from {place}.",
            f"The {person} lent the {tool} to {number} {plural(one['person'][1])}.",
            f"The {animal} was seen near {place} with {number} {plural(one['animal'][1])}.",
        ]
    )


@dataclass(frozen=True)
class Chain:
    """A run that is done: its store, and what the server was asked."""

    store: Path
    server: Obeying

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return query(self.store, text)


@pytest.fixture(scope="module")
def chain(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """The chain has run over a corpus of its own, in this process."""
    folder = tmp_path_factory.mktemp("chain")
    draw = random.Random(3)
    corpus = folder / "corpus.jsonl"
    documents = [[sentence(draw) for _ in range(5)] for _ in range(110)]
    write_corpus(corpus, [{"query": " ".join(d[:2]), "answer": " ".join(d[2:])} for d in documents])
    with obeying_server() as (server, asked):
        content = yaml.safe_load(tiny.recipe.read_text())
        content["corpora"][0]["source"] = str(corpus)
        content |= {
            "name": "chain",
            "sample": {"rows": ANCHORS},
            "llm": {"name": "obeying"},
            "extract_generate": {},
            "synthesise": dict.fromkeys(METHODS),
            "select": {
                "pairing": "role",
                "positive_min": 0.5,
                "negative_max": {"quantile": 0.7},
            },
        }
        content["run"]["llm"] = {"endpoints": [server.url], "concurrency": 8}
        path = folder / "chain.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        plan = prepare(RunArguments(str(path), str(folder / "store")))
        with open_run(plan) as handle:
            run_steps(handle)
    return Chain(folder / "store", asked)


def test_each_method_is_asked_about_each_anchor_that_it_applies_to(chain: Chain) -> None:
    counts = dict(chain.rows("SELECT method, count(*) FROM generations GROUP BY 1"))
    ((with_number,),) = chain.rows(
        "SELECT count(DISTINCT sentence_id) FROM mentions WHERE kind = 'quantity'"
    )
    assert 0 < with_number < ANCHORS
    for method in METHODS:
        wanted = with_number if method == "quantity_revision" else ANCHORS
        assert counts[method] == wanted, method
    asked = Counter(chain.server.asked)
    assert asked["extract"] == ANCHORS
    # One prompt file for both.
    assert asked["from_knowledge"] == 2 * ANCHORS
    kinds = dict(chain.rows("SELECT kind, count(DISTINCT sentence_id) FROM mentions GROUP BY 1"))
    assert kinds == {"entity": ANCHORS, "quantity": with_number}
    # Nothing that obeys is refused.
    assert chain.rows("SELECT * FROM rejects WHERE stage LIKE 'extract%' OR stage = 'parse'") == []


def revised(chain: Chain, method: str) -> list[tuple[Any, ...]]:
    return chain.rows(
        f"""SELECT s.text, c.text, c.detail.old, c.detail.new, m.text, m.kind, n.text, n.kind
            FROM candidates c JOIN sentences s USING (sentence_id)
            JOIN mentions m ON m.mention_id = c.detail.mention_id
                AND m.sentence_id = c.sentence_id
            LEFT JOIN kg_nodes n ON n.node_id = c.detail.node_id
            WHERE c.method = '{method}'"""
    )


def test_a_revision_changes_just_that_entity_or_number(chain: Chain) -> None:
    rows = revised(chain, "entity_revision")
    assert len(rows) == ANCHORS
    for source, text, old, new, mentioned, kind, node, _ in rows:
        assert (mentioned, kind) == (old, "entity")
        assert new != old
        kinds = {TYPES.get(word) or TYPES[singular(word)] for word in (old, new)}
        assert len(kinds) == 1, (old, new)
        assert node in (new, singular(new))
        assert text == re.sub(rf"\b{old}\b", new, source)
    rows = revised(chain, "quantity_revision")
    assert rows
    for source, text, old, new, mentioned, kind, *_ in rows:
        assert (mentioned, kind) == (old, "quantity")
        assert new != old
        assert text == re.sub(rf"\b{old}\b", new, source)


def test_what_is_accepted_trains_the_encoder(chain: Chain) -> None:
    ((beyond, accepted),) = chain.rows(
        """SELECT count(*) FILTER (NOT within AND reason IS NULL), count(*) FILTER (within) FROM (
               SELECT if(c.role = 'positive', s.value >= a.threshold, s.value <= a.threshold)
                   AS within, r.reason
               FROM candidates c JOIN scores s USING (candidate_id)
               JOIN acceptance a USING (role, method)
               LEFT JOIN rejects r ON r.stage = 'select' AND r.row_id = c.candidate_id
               WHERE c.method <> 'random')"""
    )
    assert beyond == 0 < accepted
    pairs = chain.rows("SELECT positive_method, negative_method FROM triplets")
    assert {positive for positive, _ in pairs} <= POSITIVE | {"self"}
    assert {negative for _, negative in pairs} <= set(METHODS) - POSITIVE | {"random"}
    assert sum(negative != "random" for _, negative in pairs) > ANCHORS / 2
    assert chain.rows("SELECT max(step) FROM training_log") == [(10,)]
    assert len(chain.rows("SELECT DISTINCT phase FROM evaluations")) == 2


def test_the_recipe_with_the_papers_data_starts_as_given_and_selects(
    tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files lie where it says; only the hub's data, the models and the lengths are others."""
    monkeypatch.chdir(tmp_path)
    suite = write_sts(tmp_path / "SentEval" / "data")
    # In words that the tiny encoder knows.
    graded = zip(tiny_texts[:60:2], tiny_texts[1:60:2], strict=True)
    dev = [f"g\tf\t2012\t{i}\t{i % 6}\t{one}\t{two}" for i, (one, two) in enumerate(graded)]
    (suite / "STS" / "STSBenchmark" / "sts-dev.csv").write_text("\n".join(dev) + "\n")
    draw = random.Random(4)
    texts = list(dict.fromkeys(sentence(draw) for _ in range(160)))
    (tmp_path / "domain.txt").write_text("\n".join(texts[:20]) + "\n")
    lines = [json.dumps({"anchor": text}) for text in texts[20:]]
    (tmp_path / "nli.jsonl").write_text("\n".join(lines) + "\n")
    with obeying_server() as (server, _):
        overrides = (
            "corpora.1.source=nli.jsonl",
            f"backbone={tiny_backbone}",
            "llm={name: obeying}",
            f"run.llm={{endpoints: [{server.url!r}], concurrency: 8}}",
            "evaluator.fit.batch_size=8",
            "evaluate.tasks=[STS-B]",
            "evaluate.splits=[test]",
        )
        plan = prepare(RunArguments("gcse_sts", str(tmp_path / "store"), overrides, until="select"))
        with open_run(plan) as handle:
            run_steps(handle)

    def rows(text: str) -> list[tuple[object, ...]]:
        return query(tmp_path / "store", text)

    shares = dict(rows("SELECT corpus, anchors FROM anchor_shares"))
    assert shares == {"domain": 20, "nli": 60}
    ((chosen,),) = rows("SELECT dev_metric FROM training_log WHERE chosen")
    assert chosen == "sts STS-B dev all spearman"
    # Each anchor has its triplet, and what passed in neither role another.
    ((anchors, lost),) = rows(
        """SELECT count(DISTINCT sentence_id), (SELECT count(*) FROM rejects
            WHERE stage = 'select' AND reason IN ('below_positive_min', 'above_negative_max')
            AND text NOT IN (SELECT positive FROM triplets)) FROM triplets"""
    )
    assert anchors == 80
    assert lost == 0
