"""Artifacts, parts, manifests, fingerprints and the catalog. No torch, nothing of the stages."""
