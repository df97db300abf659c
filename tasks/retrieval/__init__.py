"""Search among the passages: their vectors, and what is told by where a query finds its own."""
