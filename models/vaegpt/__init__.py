"""VAEGPT-Sim: a GPT-2 with fading latent noise in its blocks; a vLLM plugin serves it."""
