"""A vLLM plugin without dependencies: makes vLLM serve VAEGPT checkpoints.

This folder is a distribution of its own, `tercet-vaegpt`, since vLLM lives in another environment
than Tercet. Nothing here imports Tercet. `latent.py` and `config.py` are what Tercet itself uses.
"""


def register() -> None:
    """vLLM calls this in each of its processes, through `vllm.general_plugins`."""
    from transformers import AutoConfig
    from vllm import ModelRegistry

    from .config import VaeGptConfig

    AutoConfig.register(VaeGptConfig.model_type, VaeGptConfig, exist_ok=True)
    # By name, so that registering loads no CUDA.
    ModelRegistry.register_model("VaeGpt", f"{__name__}.served:VaeGpt")
