"""VAEGPT-Sim: GPT-2 with decaying latent noise in its blocks, and a vLLM plugin to serve it."""
