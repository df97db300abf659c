"""Methods whose texts a language model writes: prompts, requests and checks of the answers."""
