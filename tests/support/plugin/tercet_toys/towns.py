"""Reader `towns:N`: N documents of two sentences."""

from tercet.tasks.corpus.sources.corpora import Document
from tercet.tasks.corpus.sources.reader import Reader


def digest(corpus):
    """The number of documents says it all."""
    return corpus.source


def read(corpus, max_bytes):
    """The documents in order."""
    for n in range(int(corpus.source.partition(":")[2])):
        facts = [f"Town {n} has {900 + n} people.", f"The fair {n} is in May."]
        yield Document("towns", str(n), [facts], [])


READER = Reader("towns:", digest, read, form="towns:N")
