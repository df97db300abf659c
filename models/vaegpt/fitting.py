"""What fitting VAEGPT takes: the network on a GPT-2, its frozen judge, and the loss of a batch.

L = (1 - mean cos(V_predicted, V_target)) + W_KL sum over blocks of KL(N(mu, sigma^2) || N(0, 1))
(VAEGPT-Sim, section 3.1). These terms are not in the registry of losses: those take a sentence
encoder and features of whole texts, and these the logits and latents of a language model.
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


def soft_tokens(logits: Tensor, gumbel: Tensor | None = None) -> Tensor:
    """Gumbel-softmax: softmax(logits + g), (..., vocabulary).

    gumbel: g, as the logits; drawn from torch's generator where it is None.
    """
    if gumbel is None:
        gumbel = -torch.empty_like(logits).exponential_().log()
    return torch.softmax(logits + gumbel, dim=-1)


def straight_through(soft: Tensor, table: Tensor) -> Tensor:
    """Embeddings of each position's likeliest token, with the gradient of the soft mixture.

    soft: (..., vocabulary), of probabilities; table: (vocabulary, width). The same as
    (one_hot + soft - soft.detach()) @ table, without the matrix of ones and zeros.
    """
    mixed = soft @ table
    hard = nn.functional.embedding(soft.argmax(-1), table)
    return hard + (mixed - mixed.detach())


def sentence_vectors(judge: nn.Module, embeddings: Tensor, counted: Tensor) -> Tensor:
    """The mean of the judge's last states of each sentence, (batch, width), of token embeddings.

    counted: (batch, tokens) of truth, at least one in each row, padding on the right.
    """
    states = judge(
        inputs_embeds=embeddings, attention_mask=counted.long(), use_cache=False
    ).last_hidden_state
    weights = counted.unsqueeze(-1).to(states)
    return (states * weights).sum(1) / weights.sum(1)


def target_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """1 - the mean cosine of two batches of vectors, both less the mean of the targets, in [0, 2].

    A language model's vectors of any two texts point the same way (cosines of .9 and more), which
    leaves the plain cosine little to tell; with one row, whose mean is the row itself, the plain
    cosine is taken.
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
    """The network on this checkpoint, and its objective.

    Heads are drawn from torch's generator. bf16: the judge runs under autocast. judge: the
    checkpoint that judges, of the same vocabulary; None: the one that fitting starts from, in the
    paper the original GPT-2. Raises ValueError where one of them is not a GPT-2, or where they do
    not go together.
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
    """L = target + W_KL sum of KL + cross-entropy (section 3.1; the last is ours).

    The target is fed to the model token by token (teacher forcing), so that one pass predicts a
    whole sentence: its soft tokens go through the judge as one text, without the source, and are
    compared with the target itself. The end of text is part of both: without it nothing but the
    cross-entropy would teach the model to stop.
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
    """1 - the mean cosine of predicted and true target on the judge's vectors."""
    table, counted = judge.get_input_embeddings().weight, batch["target_mask"]
    with torch.no_grad():
        true = sentence_vectors(judge, table[batch["target_ids"]], counted)
    soft = soft_tokens(logits)
    written = straight_through(soft, table)
    predicted = sentence_vectors(judge, written, counted)
    return target_loss(predicted.float(), true.float())
