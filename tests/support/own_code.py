"""A backbone that comes with Python code of its own."""

import json
import shutil
from pathlib import Path

_CODE = """
from transformers import BertConfig, BertModel

class OwnConfig(BertConfig):
    model_type = "own_bert"

class OwnModel(BertModel):
    config_class = OwnConfig
"""


def own_code(backbone: Path, folder: Path) -> Path:
    """A copy of the tiny backbone that loads with trust_remote_code alone."""
    shutil.copytree(backbone, folder)
    config = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "own_bert_code.OwnConfig", "AutoModel": "own_bert_code.OwnModel"}
    config |= {"model_type": "own_bert", "architectures": ["OwnModel"], "auto_map": auto}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own_bert_code.py").write_text(_CODE)
    return folder
