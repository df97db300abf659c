"""A real vLLM with the plugin serves what transformers computes; it starts once."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from tiny_generators import tiny_causal
from transformers import AutoTokenizer

import tercet.models.vaegpt.plugin as plugin
from tercet.models.vaegpt.network import from_gpt2

PROMPTS = [[5, 17, 80, 33, 9, 61], [70, 6, 41], [12, 99, 5, 5, 201, 34, 7, 88]]
TOKENS = 10
CHILD = """
import json, sys
from vllm import LLM, SamplingParams
if __name__ == "__main__":
    llm = LLM(
        model=sys.argv[1], enforce_eager=True, dtype="float32", enable_prefix_caching=False,
        max_model_len=96,
    )
    how = SamplingParams(temperature=0, max_tokens=int(sys.argv[3]), logprobs=3, ignore_eos=True)
    prompts = [{"prompt_token_ids": ids} for ids in json.loads(sys.argv[2])]
    answers = [answer.outputs[0] for answer in llm.generate(prompts, how)]
    found = [
        [list(a.token_ids), [sorted((t, p.logprob) for t, p in at.items()) for at in a.logprobs]]
        for a in answers
    ]
    print("FOUND", json.dumps(found))
"""


@pytest.fixture(scope="module")
def installed(vllm_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plugin as pip installs it: nobody's environment is touched."""
    folder = tmp_path_factory.mktemp("plugin")
    # From a copy, since a build leaves folders beside its sources.
    source = shutil.copytree(Path(plugin.__path__[0]), folder / "source")
    command = [vllm_python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--target", str(folder / "installed"), str(source)]
    subprocess.run(command, check=True, timeout=600)
    return folder / "installed"


@pytest.mark.slow
def test_with_noise_off_vllm_has_the_logits_of_transformers(
    vllm_python: str, installed: Path, tmp_path: Path
) -> None:
    tiny_causal(tmp_path / "plain", ["red", "green", "blue"], sharpness=0.1)
    torch.manual_seed(0)
    # So much weight that the means alone change the text.
    model = from_gpt2(tmp_path / "plain", noise_weight=20.0, noise=False).eval()
    for name, buffer in model.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    model.save_pretrained(tmp_path / "vae")
    AutoTokenizer.from_pretrained(tmp_path / "plain").save_pretrained(tmp_path / "vae")
    surroundings = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command = [vllm_python, "-c", CHILD, str(tmp_path / "vae"), json.dumps(PROMPTS), str(TOKENS)]
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    command[1:3] = [str(script)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-3000:]
    changed = False
    for prompt, (tokens, logprobs) in zip(
        PROMPTS, json.loads(lines[0].removeprefix("FOUND ")), strict=True
    ):
        with torch.no_grad():
            wanted = model(torch.tensor([[*prompt, *tokens]])).logits[0].log_softmax(-1)
            model.config.noise_weight = 0.0
            plain = model(torch.tensor([[*prompt, *tokens]])).logits[0]
            model.config.noise_weight = 20.0
        for number, served in enumerate(logprobs):
            here = wanted[len(prompt) - 1 + number]
            assert int(here.argmax()) == tokens[number]
            for token, value in served:
                assert float(here[token]) == pytest.approx(value, abs=1e-3)
            changed |= int(plain[len(prompt) - 1 + number].argmax()) != tokens[number]
    # The heads had a part in it.
    assert changed
