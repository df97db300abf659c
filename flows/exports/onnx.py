"""ONNX files for an exported encoder, and their accuracy and speed against it."""

import importlib.util
import platform
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import numpy.typing as npt

from tercet.errors import kind_of
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from tercet.models.encoders.encoder import Vectors

    Ranks = npt.NDArray[np.int32]

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
SENTENCES = 1_000
# The number of pairwise similarities is quadratic: 500 texts have 125,000.
COMPARED = 500
PAIRS = 2_000
RESAMPLES = 2_000
FOLDER = "onnx"

_Row = dict[str, Any]


def check_installed() -> None:
    """Raises BadInput if the packages that write ONNX are missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(
            "missing_package",
            f"--onnx and --int8 need the package {missing[0]}, which is not installed: "
            "pip install 'tercet[onnx]'.",
        )


def add_onnx(
    folder: Path,
    connection: duckdb.DuckDBPyConnection,
    full: bool,
    int8: bool,
    seed: int = 0,
    trust_remote_code: bool = False,
) -> _Row:
    """Writes the files into an encoder's directory; returns their measurements for the card.

    full: keep the fp32 file. int8: make the quantised file. Both are measured on the run's dev
    sentences and on its document pairs, if any. trust_remote_code: whether code that came with the
    backbone may run.
    Raises: BadInput if the run has no sentences to measure on, or if the encoder cannot be written
        as ONNX.
    """
    check_installed()
    where, texts = _sentences(connection)

    import torch

    from tercet.models.encoders import onnx_files
    from tercet.models.encoders.encoder import load_encoder

    place = folder / FOLDER
    place.mkdir()
    written = {place / "model.onnx": "fp32"}
    try:
        model = load_encoder(folder, device="cpu", trust_remote_code=trust_remote_code)
        onnx_files.write_onnx(model, place / "model.onnx")
    except ValueError as error:
        raise BadInput(
            kind_of(error, "unfit_model"), f"{error}: export without --onnx and --int8."
        ) from error
    if int8:
        path = place / onnx_files.int8_name()
        onnx_files.write_int8(place / "model.onnx", path)
        written[path] = "weights in int8, activations quantised dynamically"
    if not full:
        (place / "model.onnx").unlink()
        del written[place / "model.onnx"]
    threads = torch.get_num_threads()
    split, queries, answers = _pairs(connection)
    agreement, retrieval = [], []
    original = _ranks(model, queries, answers) if queries else None
    for path in written:
        name = path.relative_to(folder).as_posix()
        encoder = onnx_files.OnnxEncoder(path, model, threads)
        agreement.append({"path": name, **_agreement(model, encoder, texts)})
        if original is not None:
            measured = _retrieval(original, _ranks(encoder, queries, answers), seed)
            retrieval += [{"path": name, **row} for row in measured]
    tokenizer = model.tokenizer
    return {
        "files": [
            {
                "path": path.relative_to(folder).as_posix(),
                "what": what,
                "megabytes": path.stat().st_size / 1e6,
            }
            for path, what in written.items()
        ],
        "sentences": len(texts),
        "sentences_from": where,
        "threads": threads,
        "processor": _processor(),
        "onnxruntime": metadata.version("onnxruntime"),
        "agreement": agreement,
        "retrieval": retrieval,
        "retrieval_split": split,
        "padding": f'pad_id={tokenizer.pad_token_id}, pad_token="{tokenizer.pad_token}"',
        "max_length": int(model.max_seq_length or 512),
    }


def list_measurements(measurements: _Row) -> list[str]:
    """The measurements, for the terminal."""
    lines = [f"ONNX against torch, {measurements['sentences']:,} {measurements['sentences_from']}:"]
    for row in measurements["agreement"]:
        lines.append(
            f"  {row['path']}: cosine {row['cosine_mean']:.5f} (least {row['cosine_min']:.5f}), "
            f"Spearman of similarities {row['spearman']:.3f}, "
            f"{row['texts_per_second']:.0f} texts/s, {row['speed_ratio']:.2f} times torch"
        )
    for row in measurements["retrieval"]:
        lines.append(
            f"  {row['path']}: {row['metric']} {row['file']:.2f} instead of {row['original']:.2f}, "
            f"{row['difference']:+.2f} ({row['low']:+.2f} to {row['high']:+.2f}), n {row['n']:,}"
        )
    return lines


def _sentences(connection: duckdb.DuckDBPyConnection) -> tuple[str, list[str]]:
    """The texts to measure on, in the order of their ids, which is as good as random."""
    ask = "SELECT text FROM sentences WHERE {} ORDER BY sentence_id LIMIT {}"
    for where, condition in (
        ("dev sentences of the run", "split = 'dev'"),
        ("sentences of the run (it has no dev split)", "true"),
    ):
        rows = connection.execute(ask.format(condition, SENTENCES)).fetchall()
        if len(rows) > 2:
            return where, [text for (text,) in rows]
    raise BadInput(
        "not_reached",
        "--onnx and --int8 measure the files on sentences of the encoder's run, but the store has "
        "none: export without them.",
    )


def _pairs(connection: duckdb.DuckDBPyConnection) -> tuple[str, list[str], list[str]]:
    """Document pairs of test, or else of dev; no query and no answer occurs twice."""
    for split in ("test", "dev"):
        rows = connection.execute(
            "SELECT query, answer FROM document_pairs WHERE split = ? ORDER BY pair_id LIMIT ?",
            [split, PAIRS],
        ).fetchall()
        if len(rows) > 1:
            return split, [query for query, _ in rows], [answer for _, answer in rows]
    return "", [], []


def _agreement(model: "SentenceTransformer", encoder: Any, texts: Sequence[str]) -> _Row:
    """How close the file's vectors are to torch's, and the speed of both."""
    from tercet.models.measures import metrics

    original, seconds = _timed(model, encoder, texts)
    vectors = original["file"]
    cosines = np.einsum("nd,nd->n", original["torch"], vectors, dtype=np.float64)
    part = slice(0, COMPARED)
    upper = np.triu_indices(len(vectors[part]), k=1)
    similarities = [(v[part] @ v[part].T)[upper] for v in (original["torch"], vectors)]
    return {
        "cosine_mean": float(cosines.mean()),
        "cosine_min": float(cosines.min()),
        "spearman": 100 * metrics.spearman(*similarities),
        "texts_per_second": 2 * len(texts) / seconds["file"],
        "torch_texts_per_second": 2 * len(texts) / seconds["torch"],
        "speed_ratio": seconds["torch"] / seconds["file"],
    }


def _timed(
    model: "SentenceTransformer", encoder: Any, texts: Sequence[str]
) -> tuple[dict[str, "Vectors"], dict[str, float]]:
    """Vectors of model and file, and seconds of two passes each, alternating after a warm-up."""
    from tercet.models.encoders.encoder import encode

    either = {"torch": model, "file": encoder}
    for one in either.values():
        encode(one, texts[:64])
    vectors: dict[str, Vectors] = {}
    seconds = dict.fromkeys(either, 0.0)
    for _ in range(2):
        for name, one in either.items():
            began = time.perf_counter()
            vectors[name] = encode(one, texts)
            seconds[name] += time.perf_counter() - began
    return vectors, seconds


def _ranks(encoder: Any, queries: Sequence[str], answers: Sequence[str]) -> "Ranks":
    """The rank of each query's answer among all answers."""
    from tercet.models.encoders.encoder import encode
    from tercet.models.measures import metrics

    relevant = np.arange(len(queries))
    query_vectors, answer_vectors = (
        encode(encoder, queries, side="query"),
        encode(encoder, answers, side="document"),
    )
    return metrics.answer_ranks(query_vectors, answer_vectors, relevant)


def _retrieval(original: "Ranks", ranks: "Ranks", seed: int) -> list[_Row]:
    """Recall@1 and MRR of encoder and file on equal pairs, and the difference with its interval."""
    from tercet.models.measures import metrics, resampling

    rows = []
    for metric, measure in (
        ("recall@1", lambda r: metrics.recall_at(r, 1)),
        ("mrr", metrics.reciprocal_ranks),
    ):
        before, after = (
            resampling.sampled(resampling.mean_of(100 * measure(each)), len(each), RESAMPLES, seed)
            for each in (original, ranks)
        )
        gain = resampling.paired_test(after, before)
        rows.append(
            {
                "metric": metric,
                "original": before.value,
                "file": after.value,
                "difference": gain.value,
                "low": gain.low,
                "high": gain.high,
                "n": len(ranks),
            }
        )
    return rows


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    return name or platform.machine()
