"""What a person starts: the recipe, the pipeline, the Prefect flow and the command line."""
