"""Loss `margin`: the triplet loss with the next row's positive as the negative."""

from tercet.models.config import Config
from tercet.models.losses.loss import Loss


class Margin(Config):
    """By how much the own positive is to be nearer."""

    margin: float = 0.3


LOSS = Loss("margin", Margin, "tercet_toys.margin_loss:MarginLoss", optional=())
