"""Tokens a second of our own decoding against transformers' `generate`, in one process.

Same model (a GPT-2 or a T5 with random weights), same prompts, same kind of sampling (top_k 50, no
repeated 4-gram for beams, top_p 0.9 for T5, as GenSE draws), every text as long as the limit; the
two take turns, and the median counts. On a CPU the seconds are those of the process, which other
programs disturb less:

    OMP_NUM_THREADS=1 python benchmarks/local_generation.py
    OMP_NUM_THREADS=1 python benchmarks/local_generation.py --form t5
    python benchmarks/local_generation.py --device cuda --precision bfloat16 --layers 12 --width 768
"""

import argparse
import csv
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

from tercet.models.generators.decode import decode
from tercet.models.generators.settings import Decoding

RESULTS = Path(__file__).parent / "results" / "local_generation.csv"
PROMPT, LIMIT = 24, 32


def main() -> None:
    """Measures plain sampling and sampled beams, and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--form", default="causal", choices=("causal", "t5"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(0)
    made = _t5(options) if options.form == "t5" else _gpt2(options)
    model = made.to(options.device, getattr(torch, options.precision)).eval()
    prompts = torch.randint(1, options.vocabulary, (options.batch, PROMPT)).tolist()
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            shape = [
                "form",
                "device",
                "precision",
                "layers",
                "width",
                "vocabulary",
                "batch",
                "beams",
            ]
            writer.writerow([*shape, "ours_tokens_a_second", "generate_tokens_a_second", "ratio"])
        for beams in (1, 3):
            rates = _rates(model, prompts, beams, options.turns)
            ratios = [ours / theirs for ours, theirs in rates]
            ours, theirs = (statistics.median(column) for column in zip(*rates, strict=True))
            shape = [options.form, options.device, options.precision, options.layers, options.width]
            shape += [options.vocabulary, options.batch, beams]
            row = [*shape, f"{ours:.0f}", f"{theirs:.0f}", f"{statistics.median(ratios):.2f}"]
            writer.writerow(row)
            print(*row, f"(ratios {min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def _gpt2(options: argparse.Namespace) -> Any:
    """A causal model whose end never comes, so that all texts are as long."""
    config = GPT2Config(
        vocab_size=options.vocabulary,
        n_embd=options.width,
        n_layer=options.layers,
        n_head=max(1, options.width // 64),
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    with torch.no_grad():
        model.transformer.wte.weight[0] = 0
        model.transformer.ln_f.bias.fill_(0.05)
    return model


def _t5(options: argparse.Namespace) -> Any:
    """The same with an encoder and a decoder of so many layers each."""
    config = T5Config(
        vocab_size=options.vocabulary,
        d_model=options.width,
        d_kv=64,
        d_ff=4 * options.width,
        num_layers=options.layers,
        num_heads=max(1, options.width // 64),
        decoder_start_token_id=0,
        eos_token_id=0,
    )
    model = T5ForConditionalGeneration(config)
    with torch.no_grad():
        # The end's logit is far below the others', which are around 0.
        model.shared.weight[0] = 0
        head = torch.nn.Linear(options.width, options.vocabulary)
        head.weight = model.shared.weight
        head.bias.zero_()
        head.bias[0] = -100.0
    model.lm_head = head
    return model


def _rates(
    model: Any, prompts: list[list[int]], beams: int, turns: int
) -> list[tuple[float, float]]:
    """Tokens a second of both, turn by turn."""
    no_repeat = 0 if beams == 1 else 4
    encodes = model.config.is_encoder_decoder
    how = Decoding(beams=beams, no_repeat=no_repeat, top_p=0.9 if encodes else 1.0)
    ids = torch.tensor(prompts, device=model.device)
    given: dict[str, Any] = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "do_sample": True,
        "top_k": how.top_k,
        "top_p": how.top_p,
        "num_beams": beams,
        "no_repeat_ngram_size": no_repeat,
        "max_new_tokens": LIMIT,
        "pad_token_id": 0,
    }

    def ours() -> int:
        rows = range(len(prompts))
        written = decode(model, prompts, rows, [LIMIT] * len(prompts), 0, how, lambda: None)
        return sum(len(one.tokens) for one in written)

    def theirs() -> int:
        with torch.inference_mode():
            said = model.generate(**given)[:, 1 if encodes else PROMPT :]
        return int((said != 0).sum())

    ours(), theirs()
    clock = time.process_time if model.device.type == "cpu" else time.perf_counter
    return [(_rate(ours, clock), _rate(theirs, clock)) for _ in range(turns)]


def _rate(write: Callable[[], int], clock: Callable[[], float]) -> float:
    began = clock()
    count = write()
    return count / (clock() - began)


if __name__ == "__main__":
    main()
