"""How a watched process records itself: patches, exclusive time, and the record file."""
