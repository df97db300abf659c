"""Reading what runs have made: names, figures, comparisons."""
