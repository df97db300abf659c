"""GenSE's T5: one model that writes entailments and contradictions, and judges pairs."""
