"""The terms of VAEGPT-Sim's loss (section 3.1): target similarity by a frozen judge, and KL.

L = (1 - mean cos(V_predicted, V_target)) + W_KL sum over blocks of KL(N(mu, sigma^2) || N(0, 1))

They are not in the registry of losses: those take a sentence encoder and features of whole texts
(`models/losses/loss.py`), and these the logits and latents of a language model.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

Pooling: TypeAlias = Literal["mean", "last"]


def kl_to_standard(mean: Tensor, log_variance: Tensor, counted: Tensor) -> Tensor:
    """KL(N(mu, sigma^2) || N(0, 1)), summed over dimensions, the mean of the counted positions.

    mean, log_variance: (batch, tokens, width); counted: (batch, tokens) of truth, at least one.
    The paper divides by the number of sentences alone and does not say what it sums within one; a
    mean over tokens keeps the term's weight the same for short and long sentences.
    """
    each = (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1) / 2
    return each[counted].mean()


def kl_of_blocks(
    means: Sequence[Tensor], log_variances: Sequence[Tensor], counted: Tensor
) -> Tensor:
    """The sum of `kl_to_standard` over all blocks."""
    terms = [kl_to_standard(m, v, counted) for m, v in zip(means, log_variances, strict=True)]
    return torch.stack(terms).sum()


def soft_tokens(logits: Tensor, temperature: float, gumbel: Tensor | None = None) -> Tensor:
    """Gumbel-softmax: softmax((logits + g) / temperature), (..., vocabulary).

    gumbel: g, as the logits; drawn from torch's generator where it is None.
    """
    if gumbel is None:
        gumbel = -torch.empty_like(logits).exponential_().log()
    return torch.softmax((logits + gumbel) / temperature, dim=-1)


def straight_through(soft: Tensor, table: Tensor) -> Tensor:
    """Embeddings of each position's likeliest token, with the gradient of the soft mixture.

    soft: (..., vocabulary), of probabilities; table: (vocabulary, width). The same as
    (one_hot + soft - soft.detach()) @ table, without the matrix of ones and zeros.
    """
    mixed = soft @ table
    hard = nn.functional.embedding(soft.argmax(-1), table)
    return hard + (mixed - mixed.detach())


def sentence_vectors(
    judge: nn.Module, embeddings: Tensor, counted: Tensor, pooling: Pooling
) -> Tensor:
    """The judge's vector of each sentence, (batch, width), of its tokens' embeddings.

    counted: (batch, tokens) of truth, at least one in each row, padding on the right.
    pooling: `mean` of the last layer's states, or the `last` token's state.
    """
    states = judge(
        inputs_embeds=embeddings, attention_mask=counted.long(), use_cache=False
    ).last_hidden_state
    if pooling == "last":
        last = counted.sum(-1) - 1
        return states[torch.arange(len(states), device=states.device), last]
    weights = counted.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


def target_loss(predicted: Tensor, target: Tensor, centre: bool = False) -> Tensor:
    """1 - the mean cosine of two batches of vectors, in [0, 2].

    centre: both without the mean of the batch's targets. A language model's vectors of any two
    texts point the same way (cosines of .9 and more), which leaves the plain cosine little
    to tell; with one row, whose mean is the row itself, the plain cosine is taken.
    """
    if centre and len(target) > 1:
        middle = target.mean(0)
        predicted, target = predicted - middle, target - middle
    return 1 - nn.functional.cosine_similarity(predicted, target, dim=-1).mean()
