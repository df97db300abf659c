"""The encoder in a model slot, loaded in the form that the stage's config asks for."""

from typing import Any

from tercet.tasks.stage import BadInput, Work


def load_encoder(work: Work, slot: str, cnn_seed: int | None = None, key: str = "") -> Any:
    """The encoder at `work.models[slot]`, ready to use. Raises BadInput if it cannot be loaded.

    cnn_seed: of the training that starts from this encoder, and from the form's weights as it draws
        them; None: the encoder is trained. key: of the recipe, where it is at fault.
    """
    from tercet.models.encoders.encoder import load_encoder as load

    config = work.config
    try:
        return load(
            work.models[slot],
            config.pooling,
            getattr(config, "max_length", None),
            work.resources.device,
            getattr(config, "trust_remote_code", False),
            config.prompt,
            cnn_seed=cnn_seed,
            prompts=getattr(config, "prompts", None),
        )
    except ValueError as error:
        raise BadInput(f"{key}: {error}" if key else str(error)) from error
