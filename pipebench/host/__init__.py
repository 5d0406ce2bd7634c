"""This host: facts, limits, clocks, the page cache and files. Nothing here imports torch at import time."""
