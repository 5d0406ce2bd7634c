"""Pieces in C: built on first use into the cache, and their Python faces."""
