"""Artifacts, parts, manifests, fingerprints and the catalog; independent of torch and stages."""
