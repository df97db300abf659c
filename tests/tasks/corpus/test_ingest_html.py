"""The stage counts the texts that HTML was taken out of, and keeps one as it was."""

from pathlib import Path

import pyarrow as pa

from tercet.tasks.corpus import ingest
from tercet.tasks.corpus.sources.corpora import IngestConfig
from tercet.tasks.stage import Resources, Work


def test_html_is_counted_and_the_first_text_of_a_corpus_is_kept(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rows = [f"<p>The {name} heron {n} waits in<br>cold water.</p>" for n in range(3)]
        rows.append(f"The {name} stork stands on a chimney.")
        (tmp_path / f"{name}.csv").write_text("text\n" + "\n".join(rows) + "\n")
    corpora = [{"name": name, "source": f"{tmp_path}/{name}.csv"} for name in ("a", "b")]
    made: dict[str, list[pa.Table]] = {}
    config = IngestConfig.model_validate({"corpora": corpora})
    emit = lambda name, table: made.setdefault(name, []).append(table)  # noqa: E731
    ingest.run(Work(config, 0, {}, {}, {}, Resources(), tmp_path / "scratch", emit))
    rows = {name: pa.concat_tables(tables).to_pylist() for name, tables in made.items()}
    counted = [row for row in rows["corpus_outcomes"] if row["unit"] == "text"]
    assert [(row["corpus"], row["outcome"], row["n"]) for row in counted] == [
        ("a", "html", 3), ("b", "html", 3)
    ]  # fmt: skip
    shown = [row["text"] for row in rows["rejects"] if row["reason"] == "html"]
    assert shown == [f"<p>The {n} heron 0 waits in<br>cold water.</p>" for n in ("a", "b")]
    texts = {row["text"] for row in rows["sentences"]}
    assert "The a heron 1 waits in cold water." in texts
    assert not any("<" in text for text in texts)
