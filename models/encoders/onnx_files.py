"""Writes an encoder as ONNX, in full precision or quantised to int8 without calibration data.

`sentence-transformers` uses optimum-onnx for this, which cannot be installed with transformers 5
(optimum-onnx 0.1.0 needs a version below 4.58). Therefore torch's exporter writes the graph and
onnxruntime's quantiser the int8 file, with the names and parameters of
`export_dynamic_quantized_onnx_model`. The graph also gives the pooled `sentence_embedding`, so that
onnxruntime alone can use the file.
"""

import logging
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerBase

from tercet.models.encoders.template_encoder import MarkedState, TemplateEncoder

HIDDEN, EMBEDDING = "last_hidden_state", "sentence_embedding"
_EXAMPLE = ["one sentence of a batch", "and another sentence that is somewhat longer"]


class OnnxEncoder:
    """An ONNX file with the methods that `encoder.encode` needs, for comparing speeds on the same
    batches.
    """

    training = False

    def __init__(self, path: Path, original: SentenceTransformer, threads: int) -> None:
        import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [given.name for given in self._session.get_inputs()]
        self._original = original
        self.device = torch.device("cpu")

    def __getattr__(self, name: str) -> Any:
        # Tokenizer, prompts and lengths, which the file lacks.
        return getattr(self._original, name)

    def eval(self) -> "OnnxEncoder":
        """It never trains."""
        return self

    def train(self, mode: bool = True) -> "OnnxEncoder":
        """It never trains."""
        return self

    def __call__(
        self, features: Mapping[str, torch.Tensor], task: str | None = None
    ) -> dict[str, torch.Tensor]:
        """Features of shape (batch, tokens) to sentence embeddings of shape (batch, dimension).

        task: ignored.
        """
        given = {name: features[name].numpy() for name in self._inputs}
        return {EMBEDDING: torch.from_numpy(self._session.run([EMBEDDING], given)[0])}


def write_onnx(model: SentenceTransformer, path: Path) -> None:
    """Writes the encoder's graph with its weights; batch and length stay free.

    Raises: ValueError with one sentence for an architecture that torch cannot export.
    """
    if not isinstance(model.tokenizer, PreTrainedTokenizerBase):
        raise ValueError("The encoder is not a transformer, and only those are written as ONNX")
    if any(isinstance(module, TemplateEncoder | MarkedState) for module in model):
        raise ValueError(
            "The encoder reads its texts inside a template, for which an ONNX file has no place"
        )
    model.eval()
    features = dict(model.tokenizer(_EXAMPLE, padding=True, return_tensors="pt"))
    batch = torch.export.Dim("batch")
    tokens = torch.export.Dim("tokens", max=int(model.max_seq_length or 512))
    try:
        with torch.no_grad(), _quiet():
            torch.onnx.export(
                _Graph(model),
                (),
                str(path),
                kwargs={"features": features},
                input_names=list(features),
                output_names=[HIDDEN, EMBEDDING],
                dynamic_shapes={"features": {name: {0: batch, 1: tokens} for name in features}},
                dynamo=True,
                external_data=False,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = error.__cause__ or error
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0].rstrip(".")
        raise ValueError(f"torch cannot write this encoder as ONNX: {reason}") from error


def int8_name() -> str:
    """The file's name, after this machine's kind of processor."""
    return f"model_{_weights()}_{_processor()}.onnx"


def write_int8(source: Path, path: Path) -> None:
    """Quantises the weights of an ONNX file to 8 bits, channel by channel.

    Activations are quantised at run time, without calibration data.
    """
    from onnxruntime.quantization import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        QuantType,
        quantize_dynamic,
    )

    with _quiet():
        quantize_dynamic(
            str(source),
            str(path),
            per_channel=True,
            reduce_range=False,
            weight_type=QuantType.QInt8 if _weights() == "qint8" else QuantType.QUInt8,
            extra_options={"WeightSymmetric": True, "ActivationSymmetric": False},
        )


class _Graph(torch.nn.Module):  # type: ignore[misc]
    """All modules of the encoder in sequence, with the file's outputs."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, features: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """(batch, tokens) to (batch, tokens, width) and (batch, dimension)."""
        output = self.model(dict(features))
        return output["token_embeddings"], output[EMBEDDING]


def _processor() -> str:
    """sentence-transformers' name for the best instruction set of this processor."""
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "arm64"
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "avx2"
    return "avx512_vnni" if "avx512_vnni" in flags else "avx2"


def _weights() -> str:
    # On avx2, signed weights overflow the 16-bit intermediate sums.
    return "quint8" if _processor() == "avx2" else "qint8"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the long output of exporter and quantiser."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
