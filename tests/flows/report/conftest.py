"""The written store, for all tests of the report."""

from report_store import written

__all__ = ["written"]
