"""Tries a changed loader inside the script's own loop: two loaders serve the batches of one sampler in turn."""
