"""Writes the followed batches as a trace for Perfetto."""
