"""What leaves the store: ONNX files, tables, rows, a hub repository."""
