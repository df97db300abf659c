"""A client of the server that `PREFECT_API_URL` names, or one sentence why there is none."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tercet.flows.service import server
from tercet.tasks.stage import BadInput

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


@contextmanager
def answering() -> "Iterator[SyncPrefectClient]":
    """A client of the server. Raises: BadInput if that does not answer, or not as Prefect's does.

    Enter `server.prefect_server` first.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    address = server.shown(os.environ["PREFECT_API_URL"])
    try:
        with get_client(sync_client=True) as client:
            if not _is_api(client):
                raise BadInput(
                    f"{address} is no Prefect API: let PREFECT_API_URL name your server's, such as "
                    "http://127.0.0.1:4200/api."
                )
            yield client
    except httpx.TransportError as error:
        raise BadInput(
            f"The Prefect server {address} does not answer ({error}): start it, or correct "
            "PREFECT_API_URL."
        ) from error
    except PrefectHTTPStatusError as error:
        if error.response.status_code not in (401, 403):
            raise
        raise BadInput(
            f"The Prefect server {address} refuses the login: put USER:PASSWORD into "
            "PREFECT_API_AUTH_STRING, or a key into PREFECT_API_KEY."
        ) from error


def _is_api(client: "SyncPrefectClient") -> bool:
    """Whether what answers is an API: Prefect's pages answer everything, other servers with 404."""
    from prefect.exceptions import PrefectHTTPStatusError

    try:
        client.api_version()
    except json.JSONDecodeError:
        return False
    except PrefectHTTPStatusError as error:
        if error.response.status_code != 404:
            raise
        return False
    return True
