"""Chooses the functions that are timed as stages: transforms, library calls, webdataset, the user's labels."""
