"""In-batch negatives, without texts that a frozen guide considers positives.

sentence-transformers' GISTEmbedLoss (Solatorio 2024, arXiv:2402.16829, section 3): a text of
another row is left out of the softmax if the guide's cosine puts it nearer to the anchor than the
anchor's own positive.
"""

from collections.abc import Mapping
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss
from torch import Tensor
from torch.nn.functional import normalize

from tercet.models.config import Config
from tercet.models.encoders.encoder import load_encoder


class GuidedLoss(GISTEmbedLoss):  # type: ignore[misc]
    """GISTEmbedLoss from anchor to positive only, with a frozen guide.

    The library's loss also contrasts anchors with anchors and positives with positives, keeps the
    guide's dropout on in training, and copies the vectors of every pair to compute cosines.

    A guide with a template applies it itself. The bare texts cannot be recovered from the encoder's
    template, so if the encoder has a template, the guide must have the same one.

    Inputs: (anchor, positive), optionally with negatives; labels are ignored.
    """

    def __init__(
        self, model: SentenceTransformer, params: Config, slots: Mapping[str, Path]
    ) -> None:
        guide = load_encoder(slots["guide"])
        super().__init__(
            model,
            guide,
            temperature=0.05,
            margin=0.0,
            contrast_anchors=False,
            contrast_positives=False,
        )
        template, guide_template = (
            getattr(encoder[0], "template", None) for encoder in (model, guide)
        )
        if template is None and guide_template is not None:
            self.must_retokenize, self.tokenizer = True, model.tokenizer
        elif template != guide_template or (template is not None and self.must_retokenize):
            raise ValueError(
                "the loss guided gives its guide the texts that the encoder reads, which stand "
                f"in the template {template!r} that the guide does not read: take a guide with the "
                "same template and tokenizer, or another pooling"
            )
        guide.requires_grad_(False).eval()

    def sim_matrix(self, embed1: Tensor, embed2: Tensor) -> Tensor:
        """Cosines (n, m) of vectors (n, d) and (m, d), without a tensor of shape (n, m, d)."""
        return normalize(embed1, dim=-1) @ normalize(embed2, dim=-1).T

    def train(self, mode: bool = True) -> "GuidedLoss":
        """Sets the mode; the guide always stays in evaluation mode."""
        super().train(mode)
        self.guide.eval()
        return self
