"""What fitting VAEGPT takes: the network on a GPT-2, its frozen judge, and the loss of a batch."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tercet.models.generators.checkpoint import load_tokenizer
from tercet.models.training.fit_generator import IGNORED, Encoded, Objective
from tercet.models.vaegpt import losses
from tercet.models.vaegpt.network import Latents, VaeGpt, from_gpt2, frozen_judge
from tercet.models.vaegpt.settings import VaeGptHyperparameters


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
    model = from_gpt2(directory, **numbers.of_network())
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
        kl = losses.kl_of_blocks(
            [mean.float() for mean in latents.means],
            [value.float() for value in latents.log_variances],
            counted,
        )
        loss = numbers.kl_weight * kl
        terms = {"kl": kl.detach()}
        if numbers.target_weight:
            own = _target_logits(logits, batch)
            with torch.autocast(logits.device.type, torch.bfloat16, enabled=bf16):
                target = _judged(judge, own, batch, numbers)
            loss = loss + numbers.target_weight * target
            terms["target"] = target.detach()
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


def _judged(judge: Any, logits: Tensor, batch: Encoded, numbers: VaeGptHyperparameters) -> Tensor:
    """1 - the mean cosine of predicted and true target on the judge's vectors."""
    table, counted = judge.get_input_embeddings().weight, batch["target_mask"]
    with torch.no_grad():
        true = losses.sentence_vectors(judge, table[batch["target_ids"]], counted, numbers.pooling)
    soft = losses.soft_tokens(logits, numbers.gumbel_temperature)
    written = losses.straight_through(soft, table)
    predicted = losses.sentence_vectors(judge, written, counted, numbers.pooling)
    return losses.target_loss(predicted.float(), true.float(), numbers.centre)
