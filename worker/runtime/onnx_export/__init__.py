"""The trained model as ONNX: exported, compared with PyTorch on real rows, packed so that it works without torch."""
