"""The process of one run of `tercet serve`: Prefect's engine, started by `serving`."""

import runpy
import sys

from prefect.exceptions import TerminationSignal

if __name__ == "__main__":
    try:
        runpy.run_module("prefect.engine", run_name="__main__")
    except (KeyboardInterrupt, TerminationSignal):
        # The end of the run is recorded, and `serve` reports it: a traceback would add nothing.
        sys.exit(130)
