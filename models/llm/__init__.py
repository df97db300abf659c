"""Language models: requests, endpoints, a client, and a vLLM server started by Tercet."""
