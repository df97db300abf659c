"""vLLM as a child process: finds, starts, monitors and ends it."""
