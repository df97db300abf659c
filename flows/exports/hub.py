"""A finished directory to the Hugging Face hub."""

import os
import shlex
from pathlib import Path
from typing import Literal

from tercet.flows.terminal.failures import StageFailed
from tercet.tasks.stage import BadInput

TOKEN = "HF_TOKEN"


def check_push(repository: str) -> None:
    """Raises BadInput, before any work, for a name that is none, no token, and a hub kept out."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repository)
    except HFValidationError:
        raise BadInput(
            f"--push {repository!r} is no repository of the hub: write OWNER/NAME."
        ) from None
    if constants.HF_HUB_OFFLINE:
        raise BadInput("--push needs the hub, and HF_HUB_OFFLINE keeps it out: unset it.")
    if not os.environ.get(TOKEN):
        raise BadInput(f"--push needs a token that may write: put it into {TOKEN}.")


def push(folder: Path, repository: str, kind: Literal["model", "dataset"], public: bool) -> str:
    """Uploads the directory in one commit; the repository is made, private, where there is none.

    Returns its address. Raises: StageFailed with the command that uploads it later; BadInput where
    there is one that everybody can see, and `public` was not said.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(token=os.environ[TOKEN])
    try:
        made = api.create_repo(repository, repo_type=kind, private=not public, exist_ok=True)
        if not public and not api.repo_info(made.repo_id, repo_type=kind).private:
            raise BadInput(
                f"{folder} is whole, but was not uploaded: {repository} is there already and "
                "public. Name another, or say --public."
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
            f"{folder} is whole, but was not uploaded to {repository}: {_reason(error)}. "
            f"Later: {later}"
        ) from error
    return str(made)


def _reason(error: Exception) -> str:
    """The first line of what went wrong, without the token should it be in it."""
    said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return said.replace(os.environ.get(TOKEN) or "\0", "[token]")
