"""A store with passages and their vectors by two encoders, written down rather than run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from commands_store import make_artifact, make_run

from tercet.models import seeding
from tercet.models.text.passages import passage_text
from tercet.storage.fingerprint import tree_digest
from tercet.storage.store import Store, open_store
from tercet.tasks.corpus.passages import PASSAGES
from tercet.tasks.retrieval.passage_vectors import PASSAGE_VECTORS, PassageVectorsConfig

CONFIG = PassageVectorsConfig.model_validate({"prompts": {"query": "red", "document": "blue"}})


@dataclass(frozen=True)
class Searched:
    """One finished run of `notes`; texts: of its passages as they are read, in their order."""

    store: Store
    run: str
    texts: list[str]
    ids: list[int]
    backbone: Path
    trained: Path


@pytest.fixture
def searched(tmp_path: Path, tiny_backbone: Path, tiny_texts: list[str]) -> Searched:
    from tercet.models.encoders.encoder import encode, load_encoder

    store = open_store(str(tmp_path / "store"))
    table = passages(tiny_texts[:60])
    rows = table.to_pylist()
    texts = [passage_text(row["context"], row["text"]) for row in rows]
    trained = other_encoder(tiny_backbone, tmp_path / "trained")
    make_artifact(store, "passages", "aaaa", {"passages": table})
    make_artifact(store, "train", "bbbb", {}, model=trained)
    steps = {"passages": ("aaaa", "made", {"passages": len(rows)}), "train": ("bbbb", "made", {})}
    for name, folder, version in (
        ("base", tiny_backbone, tree_digest(tiny_backbone)),
        ("encoder", trained, "bbbb"),
    ):
        model = load_encoder(folder, prompts=CONFIG.prompts)
        vectors = encode(model, texts, side="document")
        made = pa.table([table["passage_id"], list(vectors)], schema=PASSAGE_VECTORS)
        components = {"stage": "passage_vectors", "models": {"encoder": version}}
        components |= {"config": CONFIG.model_dump(mode="json")}
        step = f"passage_vectors.{name}"
        manifest = {"components": components}
        make_artifact(store, step, f"cccc{name}", {"passage_vectors": made}, manifest)
        steps[step] = (f"cccc{name}", "made", {"passage_vectors": len(rows)})
    run = make_run(store, "notes", steps, {"name": "notes", "backbone": str(tiny_backbone)})
    return Searched(store, run, texts, table["passage_id"].to_pylist(), tiny_backbone, trained)


def passages(texts: list[str], shipped: int = 0) -> pa.Table:
    """Every second one under a heading; of so many the corpus is `plain`."""
    rows: list[dict[str, Any]] = []
    for place, text in enumerate(texts):
        context = "Notes > File open" if place % 2 else ""
        rows.append(
            {"passage_id": seeding.text_id(passage_text(context, text)), "doc_id": place // 2}
            | {
                "text": text,
                "context": context,
                "corpus": "plain" if place < shipped else "notes",
                "source": "notes.md",
            }
            | {"path": f"notes.md:{place}", "position": place % 2, "n_tokens": len(text.split())}
            | {"split": "train"}
        )
    return pa.Table.from_pylist(rows, PASSAGES)


def other_encoder(backbone: Path, folder: Path) -> Path:
    """The backbone with other weights, as an encoder's directory."""
    import torch

    from tercet.models.encoders.encoder import load_encoder

    model = load_encoder(backbone)
    torch.manual_seed(7)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    model.save(str(folder))
    return folder
