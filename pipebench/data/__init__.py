"""Training examples on disk: embedded data sets, the user's own files and image headers. Nothing here is timed."""
