import json
from pathlib import Path
from typing import Any

import pytest

from tercet.flows.results.older_form import older_files, versions

POOLING = {"embedding_dimension": 8, "pooling_mode": "cls", "include_prompt": True}
TYPES = {
    "": "sentence_transformers.base.modules.transformer.Transformer",
    "1_Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "2_Normalize": "sentence_transformers.base.modules.normalize.Normalize",
}


def encoder(folder: Path, types: dict[str, str] = TYPES, **files: Any) -> Path:
    modules = [{"path": path, "type": kind} for path, kind in types.items()]
    content = {"modules": modules, "1_Pooling/config": POOLING} | files
    for name, held in content.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(held))
    return folder


def test_modules_and_pooling_are_named_as_before(tmp_path: Path) -> None:
    folder = encoder(tmp_path, sentence_bert_config={"transformer_task": "feature-extraction"})
    files = older_files(folder)
    assert files is not None
    read = {name: json.loads(content) for name, content in files.items()}
    assert [module["type"] for module in read["modules.json"]] == [
        f"sentence_transformers.models.{kind}" for kind in ("Transformer", "Pooling", "Normalize")
    ]
    assert read["sentence_bert_config.json"] == {"do_lower_case": False}
    pooling = read["1_Pooling/config.json"]
    assert (pooling["word_embedding_dimension"], pooling["include_prompt"]) == (8, True)
    flags = {name: on for name, on in pooling.items() if name.startswith("pooling_mode_")}
    assert [name for name, on in flags.items() if on] == ["pooling_mode_cls_token"]
    assert len(flags) == 6
    for name, content in files.items():
        (folder / name).write_text(content)
    assert versions(folder) == "5 or 6"


@pytest.mark.parametrize(
    "files",
    [
        {"types": TYPES | {"1_Pooling": "tercet_token_cnn.TokenCnn"}},
        {"1_Pooling/config": POOLING | {"pooling_mode": ["mean", "cls"]}},
        {"tokenizer_config": {"tokenizer_class": "TokenizersBackend"}},
        {"sentence_bert_config": {"modality_config": {"image": {}}}},
    ],
)
def test_what_only_version_6_reads_stays_as_it_is(files: Any, tmp_path: Path) -> None:
    assert older_files(encoder(tmp_path, **files)) is None
    assert versions(tmp_path) == "6"
