"""Copies of a model with a fault."""

import json
import shutil
from pathlib import Path


def spoilt(model: Path, fault: str, folder: Path) -> Path:
    """A copy in the folder: weightless, pickle, damaged, voiceless, or custom.

    The code that `custom` brings leaves a file `ran` in the folder, if it is run.
    """
    copy = folder / fault
    shutil.copytree(model, copy)
    if fault in ("weightless", "pickle"):
        (copy / "model.safetensors").unlink()
    if fault == "pickle":
        (copy / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    if fault == "damaged":
        (copy / "model.safetensors").write_bytes(b"garbage" * 9)
    if fault == "voiceless":
        for path in copy.glob("*token*"):
            path.unlink()
    if fault == "custom":
        config = json.loads((copy / "config.json").read_text())
        auto = {"AutoConfig": "code.C", "AutoModel": "code.M"}
        config |= {"model_type": "custom", "auto_map": auto}
        (copy / "config.json").write_text(json.dumps(config))
        (copy / "code.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")
    return copy
