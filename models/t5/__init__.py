"""GenSE's T5: one model that writes what follows and what contradicts, and judges pairs."""
