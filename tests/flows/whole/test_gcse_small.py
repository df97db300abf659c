"""`gcse_small` in little: SmolLM2 rewords a few sentences through vLLM, rules change facts."""

from pathlib import Path

import pytest
from tiny_run import ROOT, ended_well, query, tercet

SENTENCES = 40


@pytest.mark.slow
def test_what_a_real_model_rewords_ends_in_triplets(
    smollm2: Path, vllm_python: str, minilm: Path, tmp_path: Path
) -> None:
    lines = (ROOT / "recipes" / "plain_english.txt").read_text(encoding="utf-8").splitlines()
    corpus, store = tmp_path / "lines.txt", tmp_path / "store"
    corpus.write_text("".join(f"{line}\n" for line in lines[:SENTENCES]), encoding="utf-8")
    given = ["--until", "select", "--set", f"run.llm.engine.python={vllm_python}"]
    run = ["run", "gcse_small", "--corpus", str(corpus), "--no-server", "--store", str(store)]
    ended_well(tercet(*run, *given))
    ((anchors,),) = query(store, "SELECT count(DISTINCT sentence_id) FROM triplets")
    asked = query(
        store,
        """SELECT method, count(*), count(*) FILTER (raw <> '') FROM generations
        WHERE model IS NOT NULL GROUP BY ALL ORDER BY ALL""",
    )
    assert asked == [("paraphrase", anchors, anchors), ("rewrite", anchors, anchors)]
    # An answer is a candidate or has a reason; those that train are other words for the sentence.
    ((lost,),) = query(
        store,
        """SELECT count(*) FROM generations WHERE generation_id NOT IN
        (SELECT generation_id FROM candidates WHERE generation_id IS NOT NULL UNION ALL
         SELECT row_id FROM rejects WHERE stage = 'parse')""",
    )
    assert lost == 0
    trained = query(
        store,
        """SELECT anchor, positive, negative, negative_method FROM triplets
        WHERE positive_method IN ('rewrite', 'paraphrase')""",
    )
    assert len(trained) > anchors / 4
    assert all(anchor != positive != negative for anchor, positive, negative, _ in trained)
    assert any(method != "random" for *_, method in trained)
