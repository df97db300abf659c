"""Loss `margin`: the triplet loss with the next row's positive as the negative."""

from tercet.models.losses.loss import Loss, Params


class Margin(Params):
    """By how much the own positive is to be nearer."""

    margin: float = 0.3


def build(model, params, slots):
    """The loss module around the encoder."""
    import torch
    from torch.nn.functional import cosine_similarity, relu

    class MarginLoss(torch.nn.Module):
        def forward(self, sentence_features, labels):
            first, second = (model(text)["sentence_embedding"] for text in sentence_features)
            near = cosine_similarity(first, second)
            far = cosine_similarity(first, second.roll(1, 0))
            return relu(params.margin - near + far).mean()

    return MarginLoss()


LOSS = Loss("margin", Margin, build, optional=())
