"""A run whose candidates a discriminator judges, made from labelled pairs on the way."""

import csv
from pathlib import Path

import pytest
import yaml
from inference_pairs import THINGS, rows
from tiny_run import Finished, copy_of, ended_well, query, states, tercet

# The tiny encoder's own words: pairs of unknown ones would all look alike to it.
KNOWN = ["array", "column", "file", "function", "index", "list", "name", "row", "text", "value"]


def known(text: str) -> str:
    """The text with things that the tiny encoder knows."""
    for thing, own in zip(THINGS, KNOWN, strict=True):
        text = text.replace(thing, own)
    return text


def judged_recipe(folder: Path, finished: Finished, pairs: int = 150) -> Path:
    """The tiny recipe with a discriminator of pairs made by hand, which selects nothing yet."""
    with (folder / "nli.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["premise", "hypothesis", "label"])
        for number, row in enumerate(rows(pairs)):
            # In words and in numbers.
            texts = (known(str(row[name])) for name in ("anchor", "positive", "negative"))
            anchor, positive, negative = texts
            writer.writerow([anchor, positive, ("entailment", 0)[number % 2]])
            writer.writerow([anchor, negative, ("contradiction", 2)[number % 2]])
            writer.writerow([anchor, "Somebody is about to come.", ("neutral", 1)[number % 2]])
    content = yaml.safe_load(finished.tiny.recipe.read_text())
    nli = {"name": "nli", "source": str(folder / "nli.tsv"), "role": "labelled"}
    content["corpora"].append({**nli, "kind": "entailment"})
    content["models"] = {"judge": {"fit_pair": None}}
    content["score"] = {"pair": {"model": "judge"}}
    path = folder / "judged.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


@pytest.mark.slow
def test_a_discriminator_judges_what_the_rules_wrote_without_encoding_anything_again(
    finished: Finished, tmp_path: Path
) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    recipe = judged_recipe(tmp_path, finished)
    words = ("run", str(recipe), "--no-server", "--store", str(store), "--until")
    plan = ended_well(tercet("plan", str(recipe), "--store", str(store)))
    assert "Nothing selects by the scores of pair" in " ".join(plan.stdout.split())
    done = ended_well(tercet(*words, "score"))
    made = {step for step, state in states(store).items() if state == "made"}
    assert made == {"labelled", "fit_pair.judge", "score.pair"}
    assert "Discriminator judge on" in done.stdout
    assert "the evaluator's cosine" in done.stdout
    # It serves this recipe's evaluator alone.
    assert "The model fit_pair.judge is in" in done.stdout
    assert "tercet tag fit_pair.judge" not in done.stdout
    ((area,),) = query(
        store,
        """SELECT value FROM discriminator_metrics
            WHERE arm = 'discriminator' AND metric = 'auc' AND subset = 'all'""",
    )
    assert area > 0.7
    ((candidates, scored, middle),) = query(
        store,
        """SELECT count(*), count(p), median(p) FILTER (relation IN ('keeps', 'alters'))
            FROM (SELECT relation,
                    CASE role WHEN 'positive' THEN s.value ELSE 1 - s.value END AS p
                FROM candidates c LEFT JOIN scores s
                ON s.candidate_id = c.candidate_id AND s.measure = 'p_true')""",
    )
    assert candidates == scored > 100

    # Only the improbable are refused, and nothing on the topic.
    bound = min(1.0, middle + 0.1)
    ended_well(tercet(*words, "select", "--set", f"select.p_min={bound}"))
    assert {step for step, state in states(store).items() if state == "made"} == {"select"}
    refused = query(
        store,
        """SELECT c.relation, max(CASE c.role WHEN 'positive' THEN s.value ELSE 1 - s.value END)
            FROM rejects r JOIN candidates c ON c.candidate_id = r.row_id
            JOIN scores s ON s.candidate_id = c.candidate_id AND s.measure = 'p_true'
            WHERE r.reason = 'below_p_min' GROUP BY 1""",
    )
    assert refused
    assert {relation for relation, _ in refused} <= {"keeps", "alters"}
    assert max(highest for _, highest in refused) < bound
    kept = query(
        store,
        """SELECT count(*) FROM triplets t JOIN candidates c ON c.candidate_id = t.negative_id
            JOIN scores s ON s.candidate_id = c.candidate_id AND s.measure = 'p_true'
            WHERE c.relation = 'alters' AND 1 - s.value < $1""".replace("$1", repr(bound)),
    )
    assert kept == [(0,)]
    assert query(store, "SELECT reason, count(*) FROM rejects WHERE stage = 'labelled' GROUP BY 1")

    # Another name of the discriminator changes no version; only the surest first needs selecting.
    text = recipe.read_text().replace("model: judge", "model: same")
    recipe.write_text(text + "\n", encoding="utf-8")
    settings = ("--set", "models.same=judge", "--set", "select.prefer=p_true")
    ended_well(tercet(*words, "select", *settings))
    assert {step for step, state in states(store).items() if state == "made"} == {"select"}


def test_pairs_of_one_kind_are_refused_in_one_sentence(finished: Finished, tmp_path: Path) -> None:
    store = copy_of(finished.store, tmp_path / "store")
    recipe = judged_recipe(tmp_path, finished, pairs=20)
    pairs = tmp_path / "nli.tsv"
    lines = [line for line in pairs.read_text().splitlines() if line[-1] not in "n2"]
    pairs.write_text("\n".join(["premise\thypothesis\tlabel", *lines[1:]]) + "\n", encoding="utf-8")
    words = ("run", str(recipe), "--no-server", "--store", str(store), "--until", "fit_pair")
    done = tercet(*words)
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "fit_pair: judge: none of the 20 labelled pairs is false" in said
    assert "name a corpus with contradictions" in said
