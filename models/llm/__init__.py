"""Asking a language model: what is asked, whom, how, and a vLLM server of our own."""
