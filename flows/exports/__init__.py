"""Exports from the store: ONNX files, tables, rows, hub repositories."""
