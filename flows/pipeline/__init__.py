"""From recipe to steps: their inputs and the fingerprints of their results."""
