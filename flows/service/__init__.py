"""The only home of Prefect: the flow, its server, deployments."""
