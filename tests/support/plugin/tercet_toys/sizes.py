"""Measure `sizes`: how long the sentences of each corpus are."""

from tercet.flows.results.measure import Column, Measure

MEASURE = Measure(
    "sizes",
    "Length of sentences",
    "The words of a sentence, by corpus.",
    "This run has no sentences.",
    "SELECT corpus, count(*) AS n, avg(n_words) AS words FROM sentences GROUP BY corpus ORDER BY 1",
    (Column("corpus", "corpus"), Column("words", "words", 1), Column("n", "sentences")),
)
