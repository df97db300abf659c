"""Method `backwards`: the words of a sentence in the opposite order."""

from tercet.models.generation import Method, Output, Several


def backwards(given, params, seed):
    """Generations of all anchors."""
    output = Output()
    for sentence_id, text in zip(given.ids().tolist(), given.texts(), strict=True):
        output.add(sentence_id, " ".join(reversed(text.split())), "backwards")
    return output.table()


METHOD = Method("backwards", "positive", "keeps", backwards, Several)
