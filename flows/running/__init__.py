"""From steps to artifacts: plain functions without Prefect."""
