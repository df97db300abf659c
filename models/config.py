"""The base of all that a recipe or a file sets."""

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """Base of every config: unknown keys are an error, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
