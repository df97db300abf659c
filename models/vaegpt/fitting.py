"""Fits VAEGPT: loads the network and its frozen judge, and computes the loss of a batch.

L = (1 - mean cos(V_predicted, V_target)) + W_KL sum over blocks of KL(N(mu, sigma^2) || N(0, 1))
(VAEGPT-Sim, section 3.1). The terms are not in the registry of losses, which take a sentence
encoder and its features; these take the logits and latents of a language model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tercet.models.pretrained import load_tokenizer
from tercet.models.training.fit_generator import IGNORED, Encoded, Objective
from tercet.models.vaegpt.network import Latents, VaeGpt, from_gpt2, frozen_judge
from tercet.models.vaegpt.settings import VaeGptHyperparameters


def kl_to_standard(mean: Tensor, log_variance: Tensor, counted: Tensor) -> Tensor:
    """KL(N(mu, sigma^2) || N(0, 1)), summed over dimensions, averaged over the counted positions.

    The paper divides by the number of sentences and does not say how tokens are combined; the mean
    over tokens gives short and long sentences the same weight.

    mean, log_variance: (batch, tokens, width). counted: (batch, tokens), bool, at least one True.
    """
    each = (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1) / 2
    return each[counted].mean()


def kl_of_blocks(
    means: Sequence[Tensor], log_variances: Sequence[Tensor], counted: Tensor
) -> Tensor:
    """The sum of `kl_to_standard` over all blocks."""
    terms = [kl_to_standard(m, v, counted) for m, v in zip(means, log_variances, strict=True)]
    return torch.stack(terms).sum()


def soft_tokens(logits: Tensor, gumbel: Tensor | None = None) -> Tensor:
    """Gumbel-softmax: softmax(logits + g), (..., vocabulary).

    gumbel: g, shaped like the logits; None: drawn from torch's generator.
    """
    if gumbel is None:
        gumbel = -torch.empty_like(logits).exponential_().log()
    return torch.softmax(logits + gumbel, dim=-1)


def straight_through(soft: Tensor, table: Tensor) -> Tensor:
    """Embeddings of the likeliest token at each position, with the gradient of the soft mixture.

    Equal to (one_hot + soft - soft.detach()) @ table, without building the one-hot matrix.

    soft: (..., vocabulary), probabilities. table: (vocabulary, width).
    """
    mixed = soft @ table
    hard = nn.functional.embedding(soft.argmax(-1), table)
    return hard + (mixed - mixed.detach())


def sentence_vectors(judge: nn.Module, embeddings: Tensor, counted: Tensor) -> Tensor:
    """The mean of the judge's last hidden states of each sentence, (batch, width).

    embeddings: (batch, tokens, width). counted: (batch, tokens), bool, at least one True per row,
    padding on the right.
    """
    states = judge(
        inputs_embeds=embeddings, attention_mask=counted.long(), use_cache=False
    ).last_hidden_state
    weights = counted.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


def target_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """1 - the mean cosine of two batches of vectors, centred by the targets' mean, in [0, 2].

    A language model's vectors of any two texts have cosines of 0.9 and more, so plain cosines
    hardly differ. With a single row, whose mean is the row itself, the plain cosine is used.

    predicted, target: (batch, width).
    """
    if len(target) > 1:
        middle = target.mean(0)
        predicted, target = predicted - middle, target - middle
    return 1 - nn.functional.cosine_similarity(predicted, target, dim=-1).mean()


def load_vaegpt(
    directory: Path,
    numbers: VaeGptHyperparameters,
    device: str = "cpu",
    bf16: bool = False,
    judge: Path | None = None,
) -> tuple[VaeGpt, Objective]:
    """Loads the network from a GPT-2 checkpoint, and builds its objective.

    The latent heads are initialised by torch's generator. bf16: the judge runs under autocast.
    judge: checkpoint of the judge, with the same vocabulary; None: the same checkpoint, in the
    paper the original GPT-2. Raises ValueError if one of them is not a GPT-2, or if their
    vocabularies differ.
    """
    model = from_gpt2(directory, noise_weight=numbers.noise_weight)
    frozen = frozen_judge(judge or directory)
    if judge is not None and _words(judge) != _words(directory):
        raise ValueError(
            f"the judge {judge} reads the very tokens that are written, and its vocabulary is "
            f"another than that of the init {directory}: name a judge with the same tokenizer"
        )
    return model, objective_of(model, frozen.to(device), numbers, bf16)


def _words(directory: Path) -> dict[str, int]:
    return dict(load_tokenizer(directory).get_vocab())


def objective_of(
    model: nn.Module, judge: Any, numbers: VaeGptHyperparameters, bf16: bool = False
) -> Objective:
    """L = target + W_KL sum of KL + cross-entropy (section 3.1; the last is not in the paper).

    With teacher forcing, one pass predicts a whole sentence. Its soft tokens go through the judge
    as one text, without the source, and are compared with the target. Both include the end-of-text
    token; otherwise only the cross-entropy would teach the model to stop.
    """

    def objective(batch: Encoded) -> tuple[Tensor, dict[str, Tensor]]:
        counted = batch["attention_mask"].bool()
        latents = Latents(counted=counted, keep=True)
        logits = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            latents=latents,
            use_cache=False,
        ).logits.float()
        kl = kl_of_blocks(
            [mean.float() for mean in latents.means],
            [value.float() for value in latents.log_variances],
            counted,
        )
        loss = numbers.kl_weight * kl
        target_logits = _target_logits(logits, batch)
        with torch.autocast(logits.device.type, torch.bfloat16, enabled=bf16):
            target = _judged(judge, target_logits, batch)
        loss = loss + target
        terms = {"kl": kl.detach(), "target": target.detach()}
        if numbers.cross_entropy:
            entropy = nn.functional.cross_entropy(
                logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=IGNORED
            )
            loss = loss + numbers.cross_entropy * entropy
            terms["cross_entropy"] = entropy.detach()
        return loss, terms

    return objective


def _target_logits(logits: Tensor, batch: Encoded) -> Tensor:
    """The logits that predict the target's tokens, (rows, longest target, vocabulary)."""
    width = batch["target_ids"].shape[1]
    places = batch["start"][:, None] - 1 + torch.arange(width, device=logits.device)
    places = places.clamp(max=logits.shape[1] - 1)
    return logits[torch.arange(len(logits), device=logits.device)[:, None], places]


def _judged(judge: Any, logits: Tensor, batch: Encoded) -> Tensor:
    """`target_loss` of the judge's vectors of predicted and true target."""
    table, counted = judge.get_input_embeddings().weight, batch["target_mask"]
    with torch.no_grad():
        true = sentence_vectors(judge, table[batch["target_ids"]], counted)
    soft = soft_tokens(logits)
    written = straight_through(soft, table)
    predicted = sentence_vectors(judge, written, counted)
    return target_loss(predicted.float(), true.float())
