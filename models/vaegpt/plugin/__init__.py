"""A vLLM plugin without dependencies: makes vLLM serve VAEGPT checkpoints.

This folder is a separate distribution, `tercet-vaegpt`, since vLLM lives in another environment
than Tercet. Nothing here imports Tercet. Tercet itself uses `latent.py` and `config.py`.
"""


def register() -> None:
    """vLLM calls this in each of its processes, through `vllm.general_plugins`."""
    from transformers import AutoConfig
    from vllm import ModelRegistry

    from .config import VaeGptConfig

    AutoConfig.register(VaeGptConfig.model_type, VaeGptConfig, exist_ok=True)
    # By name, so that registering loads no CUDA.
    ModelRegistry.register_model("VaeGpt", f"{__name__}.served:VaeGpt")
