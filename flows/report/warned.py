"""What went wrong in a run without an error."""

from collections.abc import Sequence

from tercet.flows.formatting import shorten
from tercet.flows.pages.blocks import Section, Table
from tercet.flows.pages.redaction import public
from tercet.flows.report.subject import Subject
from tercet.flows.results import warnings


def warned(subjects: Sequence[Subject]) -> Section:
    """The table `warnings`; empty without one."""
    several = len(subjects) > 1
    rows = [
        [
            *([subject.name] if several else []),
            row["step"],
            public(
                row["message"] + (f": {shorten(row['example'], 120)!r}" if row["example"] else "")
            ),
            f"{row['count']:,} of {row['total']:,}",
            public(row["remedy"]),
        ]
        for subject in subjects
        for row in warnings.read_warnings(subject.connection)
    ]
    heads = [*(["run"] if several else []), "step", "what was found", "rows", "what to do"]
    return Section("Warnings", [Table(heads, rows)] if rows else [])
