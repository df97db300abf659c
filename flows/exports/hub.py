"""Uploads a finished directory to the Hugging Face hub."""

import os
import shlex
from pathlib import Path
from typing import Literal

from tercet.flows.terminal.failures import StageFailed
from tercet.tasks.stage import BadInput

TOKEN = "HF_TOKEN"


def check_push(repository: str) -> None:
    """Raises BadInput, before any work, for a bad name, a missing token or offline mode."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise BadInput(
            f"--push {repository!r} is not a hub repository: write OWNER/NAME."
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise BadInput("--push needs the hub, but HF_HUB_OFFLINE is set: unset it.")
    if not os.environ.get(TOKEN):
        raise BadInput(f"--push needs a token that may write: put it into {TOKEN}.")


def push(folder: Path, repository: str, kind: Literal["model", "dataset"], public: bool) -> str:
    """Uploads the directory in one commit, creating a private repository if there is none.

    Returns its address. Raises: StageFailed with the command that uploads it later; BadInput if
    the repository exists and is public but `public` is false.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=os.environ[TOKEN])
    try:
        made = api.create_repo(repository, repo_type=kind, private=not public, exist_ok=True)
        if not public and not api.repo_info(made.repo_id, repo_type=kind).private:
            raise BadInput(
                f"{folder} is complete, but was not uploaded: {repository} already exists "
                "and is public. Name another, or pass --public."
            )
        api.upload_folder(
            repo_id=made.repo_id,
            repo_type=kind,
            folder_path=folder,
            commit_message="Exported by Tercet",
        )
    except (HfHubHTTPError, httpx.HTTPError, OSError) as error:
        later = shlex.join(
            ["hf", "upload", repository, str(folder), "--repo-type", kind]
            + ([] if public else ["--private"])
        )
        raise StageFailed(
            f"{folder} is complete, but was not uploaded to {repository}: {_reason(error)}. "
            f"Later: {later}"
        ) from error
    return str(made)


def _reason(error: Exception) -> str:
    """The first line of the error, with the token removed if it contains it."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return said.replace(os.environ.get(TOKEN) or "\0", "[token]")
