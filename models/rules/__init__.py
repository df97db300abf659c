"""Generators that need no model: rules that rewrite a sentence, one module a family."""
