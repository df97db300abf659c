"""Why asking stops: the sentences for a run whose endpoints do not answer."""

from collections.abc import Sequence

from tercet.models.llm.client.in_flight import Server
from tercet.models.llm.errors import Stopped


def silence(servers: Sequence[Server], patience: float, last: str, n_answers: int) -> Stopped:
    """The error when these servers answered nothing for `patience` seconds."""
    names = ", ".join(server.shown for server in servers)
    return Stopped(
        f"{names} answered nothing for {patience:g} s (last: {last}); {n_answers} answers of this"
        " run are safe, and the same command continues from there."
    )


def hopeless(server: Server, rows: int, error: str) -> Stopped:
    """The error when the first rows all failed. error: of the last of them."""
    return Stopped(f"{server.shown} answers none of the first {rows} rows: {error}")
