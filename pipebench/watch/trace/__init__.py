"""The followed batches as a trace for Perfetto."""
