"""Measures the bound (`--bound`): live windows and replays of the same batches, inside the script's own loop."""
