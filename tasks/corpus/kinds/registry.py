"""Which module knows which kind. Only names: a stage's code includes only the kinds that it uses.

A kind is a module with a `KIND` (`kind.Kind`); a new one needs its module and a line here.
"""

from collections.abc import Mapping

UNVERSIONED = True

_HERE = "tercet.tasks.corpus.kinds"

KINDS: Mapping[str, str] = {
    "triplets": f"{_HERE}.triplets",
    "pairs": f"{_HERE}.pairs",
    "scored": f"{_HERE}.scored",
    "definitions": f"{_HERE}.definitions",
    "entailment": f"{_HERE}.entailment",
}
