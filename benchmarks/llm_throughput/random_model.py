"""A chat model with random weights, and prompts of Tercet's own for it.

    python random_model.py JOB RESULT

Run by `llm_throughput.py`, whose process so stays free of torch.
"""

import json
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tercet.models.prompted import templates

# An answer's end is as likely after each of its tokens: lengths differ, as those of real ones do.
END = 1 / 32
WORDS = {
    "noun": "river bridge teacher engine garden letter harbour mountain doctor window market "
    "farmer station painter valley captain library kitchen village lantern",
    "verb": "crosses repairs remembers follows measures paints carries watches sells describes",
    "adjective": "old narrow quiet broken heavy bright distant wooden empty famous",
    "link": "because although while before after unless",
}
SPECIAL = ["<end>", "<user>", "<assistant>"]
TEMPLATE = (
    "{% for message in messages %}<user>{{ message.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def main() -> None:
    """Reads the job, saves the model, writes sentences, prompts and parameters."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    texts = sentences(job["rows"])
    template = templates.load(templates.prompt_path("rewrite"), ("sentence",))
    prompts = [templates.render(template, {"sentence": text}) for text in texts]
    parameters = make_model(Path(job["model"]), job["shape"], prompts, job["temperature"])
    result = {"texts": texts, "prompts": prompts, "parameters": parameters}
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


def sentences(count: int) -> list[str]:
    """Distinct made-up sentences of 7 to 23 words, always the same."""
    draw = random.Random(7)
    nouns, verbs, looks, links = (WORDS[kind].split() for kind in WORDS)
    found: dict[str, None] = {}
    while len(found) < count:
        clauses = []
        for _ in range(draw.randint(1, 2)):
            first, second = draw.sample(nouns, 2)
            place = f" near the {draw.choice(looks)} {draw.choice(nouns)}" * draw.randint(0, 1)
            clauses.append(
                f"the {draw.choice(looks)} {first} {draw.choice(verbs)} {draw.randint(2, 99)} "
                f"{draw.choice(looks)} {second}s{place}"
            )
        text = f" {draw.choice(links)} ".join(clauses)
        found[f"{text[0].upper()}{text[1:]}."] = None
    return list(found)


def make_model(
    path: Path, shape: Mapping[str, int], texts: Sequence[str], temperature: float
) -> int:
    """Saves a chat model with random weights and a tokenizer trained on `texts`; its parameters."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=SPECIAL[0], pad_token=SPECIAL[0], model_max_length=512
    )
    fast.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=2048,
        hidden_size=shape["hidden"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv_heads"],
        intermediate_size=4 * shape["hidden"],
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = Qwen2ForCausalLM(config)
    let_it_end(
        model, fast(list(texts[:8]), padding=True, return_tensors="pt")["input_ids"], temperature
    )
    model.save_pretrained(path)
    fast.save_pretrained(path)
    return int(sum(weight.numel() for weight in model.parameters()))


def let_it_end(model: Any, tokens: Any, temperature: float) -> None:
    """Gives the end of an answer the probability `END` after any token.

    One dimension of the hidden states is held constant and read by that token's logit alone.
    tokens: (texts, length), what the sums over the other tokens are estimated on.
    """
    with torch.no_grad():
        model.model.embed_tokens.weight[:, 0] = model.config.initializer_range
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[0] = 0
            layer.mlp.down_proj.weight[0] = 0
        model.lm_head.weight[:, 0] = 0
        model.lm_head.weight[0] = 0
        constant = model.model(tokens).last_hidden_state[..., 0].mean()
        others = (model(tokens).logits[..., 1:] / temperature).exp().sum(-1).mean()
        model.lm_head.weight[0, 0] = temperature * (others * END / (1 - END)).log() / constant


if __name__ == "__main__":
    main()
