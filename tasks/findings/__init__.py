"""Findings: signs in a step's rows that something went wrong, though nothing failed.

No stage imports these modules, so a change of a threshold or wording invalidates no artifact.
"""
