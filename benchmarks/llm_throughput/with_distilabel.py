"""distilabel over the same prompts and the same endpoint.

    DISTILABEL_PYTHON with_distilabel.py JOB RESULT

Run by `llm_throughput.py` with the interpreter that has distilabel. Its cache is off: nothing is
written for a later run. The seconds are those of `Pipeline.run`, from the call to its return.
"""

import json
import sys
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

from datasets import Dataset  # noqa: E402
from distilabel.models import OpenAILLM  # noqa: E402
from distilabel.pipeline import Pipeline  # noqa: E402
from distilabel.steps.tasks import TextGeneration  # noqa: E402

_LONG = 3600


def main() -> None:
    """Reads the job, runs the pipeline, writes tokens and seconds."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sampling = job["sampling"]
    with Pipeline("throughput", cache_dir=job["folder"]) as pipeline:
        TextGeneration(
            llm=OpenAILLM(
                model=job["served"],
                base_url=job["url"],
                api_key="none",
                timeout=_LONG,
                generation_kwargs={
                    "temperature": sampling["temperature"],
                    "top_p": sampling["top_p"],
                    "max_new_tokens": sampling["max_tokens"],
                },
            ),
            input_batch_size=job["batch"],
        )
    rows = Dataset.from_dict({"instruction": job["prompts"]})
    began = time.perf_counter()
    made = pipeline.run(dataset=rows, use_cache=False)
    seconds = time.perf_counter() - began
    told = [
        row["statistics_text_generation_0"]
        for row in made["default"]["train"]["distilabel_metadata"]
    ]
    result = {
        "seconds": seconds,
        "answers": sum(text is not None for text in made["default"]["train"]["generation"]),
        "prompt_tokens": sum(row["input_tokens"] for row in told),
        "output_tokens": sum(row["output_tokens"] for row in told),
    }
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
