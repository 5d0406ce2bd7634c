"""The bound: live windows beside replays of the same batches, inside the script's own loop."""
