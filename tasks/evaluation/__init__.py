"""How good an encoder is: suites, figures, intervals."""
