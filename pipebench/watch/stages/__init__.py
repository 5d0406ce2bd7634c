"""Which functions are timed as stages: transforms, library calls, webdataset, user labels."""
