"""Search in passages: their vectors, the rank of a query's own passage, hard negatives."""
