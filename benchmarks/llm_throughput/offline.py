"""vLLM's own speed without a server: `LLM.generate` over all prompts at once.

    VLLM_PYTHON offline.py JOB RESULT

Run by `llm_throughput.py` with the interpreter that has vLLM. The chat template is applied before
the clock starts; tokenising, generating and turning tokens into text are inside.
"""

import json
import sys
import time
from pathlib import Path

from transformers import AutoTokenizer
from vllm import LLM, SamplingParams


def main() -> None:
    """Reads the job, generates, writes tokens and seconds."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    chats = [[{"role": "user", "content": prompt}] for prompt in job["prompts"]]
    texts = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    llm = LLM(job["model"], generation_config="vllm", **job["engine"])
    sampling = SamplingParams(**job["sampling"])
    llm.generate([job["warm_up"]], sampling, use_tqdm=False)
    llm.reset_prefix_cache()
    began = time.perf_counter()
    answers = llm.generate(texts, sampling, use_tqdm=False)
    seconds = time.perf_counter() - began
    result = {
        "seconds": seconds,
        "answers": len(answers),
        "prompt_tokens": sum(len(answer.prompt_token_ids) for answer in answers),
        "output_tokens": sum(len(answer.outputs[0].token_ids) for answer in answers),
    }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
