"""Steps to artifacts: plain functions, nothing of Prefect."""
