"""The series of a run while it goes on, and where they go: files, TensorBoard, W&B, and the loggers of frameworks."""
