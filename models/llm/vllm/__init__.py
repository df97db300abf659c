"""vLLM as a child process: finding, starting, watching and ending it."""
