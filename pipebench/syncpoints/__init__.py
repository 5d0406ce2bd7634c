"""Sync points: the lines of a training step that make the host wait for the device."""
