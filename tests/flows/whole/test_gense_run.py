"""Models that judge what was written: a T5 fitted here, one from elsewhere, and `gense_cpu`."""

import csv
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from fitted_gense import TEMPLATES
from sentence_transformers import SentenceTransformer
from tiny_run import Tiny, ended_well, query, states, tercet
from tiny_t5 import tiny_t5

from tercet.flows.results.queries import find_artifact
from tercet.storage.store import open_store

# Of each method: its rows, its prompts, and whether each stands before or around its sentence.
ASKED = """
    SELECT g.method, count(*), count(DISTINCT prompt), bool_and(contains(g.prompt, s.text)),
        any_value(prompt[:4])
    FROM generations g JOIN sentences s USING (sentence_id)
    WHERE model IS NOT NULL GROUP BY 1 ORDER BY 1
"""


@pytest.fixture(scope="module")
def words_known(tiny: Tiny) -> list[str]:
    """The words of the corpus, and those in which a T5 is asked."""
    texts = [json.loads(line) for line in tiny.corpus.read_text().splitlines()]
    words = {w for row in texts for text in row.values() for w in text[:-1].split()}
    plain = sorted(word for word in words if word.isalnum())
    return [*plain, *TEMPLATES, "True", "or", "true", "false", "not", "."]


def run(recipe: Path, store: Path, last: str) -> None:
    words = ["--no-server", "--store", str(store), "--until", last]
    ended_well(tercet("run", str(recipe), *words))


def write(tiny: Tiny, path: Path, **changes: Any) -> Path:
    """The tiny recipe with these keys, for few anchors."""
    content = yaml.safe_load(tiny.recipe.read_text()) | {"parse": {"min_words": 1}}
    path.write_text(yaml.safe_dump(content | changes, sort_keys=False))
    return path


@pytest.fixture
def fitted(tiny: Tiny, words_known: list[str], tmp_path: Path) -> Callable[..., Path]:
    """Writes a recipe that fits a T5, which writes twice about each of 40 anchors."""
    nli, people = tmp_path / "nli.csv", ["actor", "baker", "farmer", "doctor"]
    with nli.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["anchor", "positive", "negative"])
        things = ["apple", "bottle", "clock", "castle"]
        for person, thing, look in product(people, things, ("old", "new", "small")):
            anchor = f"The {person} painted the {look} {thing} in Berlin ."
            rows.writerow(
                [anchor, f"The {thing} is {look} .", f"No {person} painted the {thing} ."]
            )
    init = tiny_t5(tmp_path / "init", list(dict.fromkeys(words_known)))
    pairs = {"validation": 0.25, "test": 0.25}
    fit = {"form": "gense", "init": str(init), "pairs": pairs, "max_length": 48}
    fit |= {"max_steps": 4, "batch_size": 8, "choose_every": 2, "learning_rate": 1e-3}
    asked = {"generator": "t5", "per_unit": 2}
    corpora = yaml.safe_load(tiny.recipe.read_text())["corpora"]
    labelled = {"name": "nli", "source": str(nli), "role": "labelled", "kind": "triplets"}
    content: dict[str, Any] = {
        "corpora": [*corpora, labelled],
        "sample": {"rows": 40},
        "models": {"writer": {"fit_generator": fit}},
        "generators": {"t5": {"model": "writer", "top_p": 0.9, "beams": 1, "max_tokens": 12}},
        "synthesise": {
            **{"entailment": asked, "contradiction": asked},
            **{"telegram": None, "negation": None},
        },
        "score": {"gense": {"model": "writer"}},
        "select": {"pairing": "role", "positive_min": 0.0, "negative_max": 1.0, "p_min": 0.1},
    }
    return lambda **changes: write(tiny, tmp_path / "gense.yaml", **content | changes)


@pytest.mark.slow
def test_one_model_writes_and_judges_and_is_taken_by_its_tag(
    fitted: Callable[..., Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    run(fitted(), store, "triplets")
    assert query(store, ASKED) == [
        ("contradiction", 80, 40, True, "Say "),
        ("entailment", 80, 40, True, "Say "),
    ]
    # What keeps or alters is judged, whoever wrote it; a random sentence is not.
    judged = query(
        store,
        "SELECT c.relation, count(*) = count(s.candidate_id), "
        "min(s.value) >= 0 AND max(s.value) <= 1 FROM candidates c LEFT JOIN scores s "
        "ON s.candidate_id = c.candidate_id AND s.scorer = 'gense' GROUP BY 1 ORDER BY 1",
    )
    assert judged == [("alters", True, True), ("keeps", True, True), ("other", False, None)]
    # Fewer anchors ask nothing new, and the model is not fitted again.
    run(fitted(sample={"rows": 30}), store, "generations")
    assert states(store)["fit_generator.writer"] == "reused"
    assert query(store, "SELECT count(*) FROM generations WHERE model IS NOT NULL") == [(120,)]
    assert query(store, "SELECT count(*) FROM responses") == [(160,)]
    ((version,),) = query(store, "SELECT version FROM artifacts WHERE step LIKE 'fit_generator.%'")
    name = f"fit_generator.writer@{version}"
    ended_well(tercet("tag", name, "judge", "--store", str(store)))
    tagged = {"t5": {"model": "tag:judge", "beams": 1, "max_tokens": 12}}
    later = fitted(models={}, generators=tagged, score={"gense": {"model": "tag:judge"}})
    run(later, store, "scores")
    assert "fit_generator.writer" not in states(store)
    ((count,),) = query(store, "SELECT count(*) FROM scores WHERE scorer = 'gense'")
    assert count > 40


# Words that the tiny encoder knows, some of which have an opposite.
THINGS = ["column", "row", "array", "list", "file", "function", "name", "value"]
LOOKS = [("new", "old"), ("small", "large"), ("first", "last")]
# A handful of rows, four steps of each phase, and one precision: the rest is the recipe's own.
SMALL: dict[str, Any] = {
    "sample.rows": 200,
    "embed.precision": "fp32",
    "evaluate.precision": "fp32",
    "evaluate.bootstrap": 200,
    "train.precision": "fp32",
    "train.log_steps": 1,
    "train.phases.0.batch_size": 16,
    "train.phases.0.mini_batch": 5,
    "train.phases.0.max_steps": 4,
    "train.phases.1.batch_size": 12,
    "train.phases.1.mini_batch": 4,
    "train.phases.1.max_steps": 4,
}


def write_texts(folder: Path) -> None:
    """Sentences, and 48 others with what follows from each and one word's opposite."""
    pairs = [
        [
            f"The {look} {thing} of the {other} is in {number} red files and one blue list."
            for look in looks
        ]
        for thing, looks, other, number in product(THINGS, LOOKS, THINGS, ("two", "three"))
        if thing != other
    ]
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text, _ in pairs[48:]))
    with (folder / "nli.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["anchor", "positive", "negative"])
        for text, other in pairs[:48]:
            rows.writerow([text, text.replace("The ", "").replace("the ", ""), other])


def test_gense_cpu_trains_on_what_its_judge_of_pairs_accepts(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    """The shipped recipe on labelled data of one's own: rules write, `pair` judges."""
    write_texts(tmp_path)
    store = tmp_path / "store"
    models = {"backbone": tiny_backbone, "evaluator.model": tiny_backbone}
    sets = {**SMALL, **models, "corpora.2.source": tmp_path / "nli.csv"}
    given = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    words = ["run", "gense_cpu", "--no-server", "--store", str(store)]
    ended_well(tercet(*words, "--corpus", str(tmp_path / "lines.txt"), *given))
    judged = query(
        store,
        """SELECT c.relation, bool_or(s.value IS NULL) FROM candidates c
        LEFT JOIN scores s ON s.candidate_id = c.candidate_id AND s.scorer = 'pair'
        WHERE c.relation IN ('keeps', 'alters') GROUP BY ALL ORDER BY ALL""",
    )
    assert judged == [("alters", False), ("keeps", False)]
    ((trained, right),) = query(
        store,
        """SELECT count(*), count(*) FILTER (p.value >= 0.5) FROM triplets t
        JOIN scores p ON p.candidate_id = t.positive_id AND p.scorer = 'pair'
        WHERE t.relation = 'alters'""",
    )
    assert trained == right > 0
    ((refused,),) = query(store, "SELECT count(*) FROM rejects WHERE reason = 'below_p_min'")
    assert refused > 0
    # The judge is measured on anchors that it has not seen.
    assert query(store, "SELECT count(DISTINCT metric) > 1 FROM discriminator_metrics") == [(True,)]
    # Both phases train by cached gradients, and the last is exported.
    log = query(store, "SELECT phase, max(step) FROM training_log GROUP BY ALL ORDER BY ALL")
    assert log == [("nli", 4), ("synthetic", 4)]
    encoder = find_artifact(open_store(str(store), create=False), "train", None).model_dir()
    vectors = SentenceTransformer(str(encoder), device="cpu").encode(["the red column", "a row"])
    assert vectors.shape == (2, 32)
