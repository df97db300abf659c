"""The process of one run of `tercet serve`: Prefect's engine, started by `serving`."""

import runpy
import sys

from prefect.exceptions import TerminationSignal

if __name__ == "__main__":
    try:
        runpy.run_module("prefect.engine", run_name="__main__")
    except (KeyboardInterrupt, TerminationSignal):
        # The run's end is recorded, and `serve` says it: a traceback would say nothing more.
        sys.exit(130)
