"""The user-facing layer: recipes, the pipeline, the Prefect flow and the command line."""
