"""Training losses, one module each."""
