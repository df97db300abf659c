"""Does an exported encoder need nothing of Tercet? Same embeddings in a fresh environment.

    python benchmarks/export_check.py REF [--store DIR] [--python FRESH] [--int8]

Exports REF, makes an environment with `sentence-transformers` alone (the versions installed here;
`--python` names an interpreter that has it already), and encodes up to 500 dev sentences of the
run there and here. Writes `results/export_check.json`; exit code 1 where two numbers differ by more
than 1e-6, or where Tercet can be imported there. With `--int8` the ONNX files are written and
measured too (the extra `onnx`); what the model card says of them goes into the result.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from contextlib import closing
from importlib import metadata
from pathlib import Path

import numpy as np

from tercet.flows.commands.export import encoder_dir, export_model
from tercet.flows.exports import onnx as export_onnx
from tercet.flows.results.queries import connect, find_artifact
from tercet.models.encoders.encoder import load_encoder
from tercet.storage.store import open_store

HERE = Path(__file__).parent
TOLERANCE = 1e-6
SENTENCES = 500

FRESH = """
import importlib.util, json, sys
import numpy, sentence_transformers, torch
assert importlib.util.find_spec("tercet") is None, "tercet can be imported here"
model = sentence_transformers.SentenceTransformer(sys.argv[1], device="cpu")
numpy.save(sys.argv[3], model.encode(json.load(open(sys.argv[2], encoding="utf-8"))))
"""


def fresh_python(folder: Path) -> Path:
    """An interpreter in an environment with sentence-transformers and what it needs."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    for package in ("torch", "sentence-transformers"):
        version = metadata.version(package).split("+")[0]
        words = [str(python), "-m", "pip", "install", "--quiet", f"{package}=={version}"]
        subprocess.run(words, check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ref")
    parser.add_argument("--store", default="./tercet-store")
    parser.add_argument("--python", type=Path)
    parser.add_argument("--int8", action="store_true")
    arguments = parser.parse_args()
    store = open_store(arguments.store, create=False)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with closing(connect(store, None)) as connection:
            texts = export_onnx._sentences(connection)[1][:SENTENCES]
            measured = None
            export_model(arguments.ref, str(folder / "out"), arguments.store, None)
            if arguments.int8:
                measured = export_onnx.add_onnx(folder / "out", connection, full=True, int8=True)
                print("\n".join(export_onnx.list_measurements(measured)))
        (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
        python = arguments.python or fresh_python(folder / "environment")
        words = [str(python), "-I", "-c", FRESH, "out", "texts.json", "vectors.npy"]
        subprocess.run(words, check=True, cwd=folder)
        there = np.load(folder / "vectors.npy")
        source = encoder_dir(find_artifact(store, arguments.ref, None))
        difference = float(np.abs(there - load_encoder(source).encode(texts)).max())
    result = {
        "texts": len(texts),
        "dimension": int(there.shape[1]),
        "largest_difference": difference,
        "versions": {n: metadata.version(n) for n in ("torch", "sentence-transformers")},
        "onnx": measured,
    }
    text = json.dumps(result, indent=1) + "\n"
    (HERE / "results" / "export_check.json").write_text(text, encoding="utf-8")
    print(f"largest difference over {len(texts)} texts: {difference:.2g}")
    sys.exit(0 if difference <= TOLERANCE else 1)


if __name__ == "__main__":
    main()
