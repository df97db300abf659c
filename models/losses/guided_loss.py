"""The module of the loss `guided`."""

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss


class GuidedLoss(GISTEmbedLoss):  # type: ignore[misc]
    """The library's loss over anchor to positive alone, with a guide that stays as it is.

    The library also contrasts anchors with anchors and positives with positives, and would train
    with the guide's dropout on.

    Inputs: (anchor, positive), or with the negatives that the rows have; labels are ignored.
    tau > 0; margin >= 0, in cosine.
    """

    def __init__(
        self, model: SentenceTransformer, guide: SentenceTransformer, tau: float, margin: float
    ) -> None:
        super().__init__(
            model,
            guide,
            temperature=tau,
            margin=margin,
            contrast_anchors=False,
            contrast_positives=False,
        )
        guide.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> "GuidedLoss":
        """The guide has no training mode."""
        super().train(mode)
        self.guide.eval()
        return self
