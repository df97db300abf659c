"""What shows in a step's rows that something went wrong, though nothing failed.

No stage imports these modules: a threshold or a wording that is mended makes no artifact anew.
"""
