"""One module per stage: its config, its tables, its pure function. Nothing of Prefect."""
