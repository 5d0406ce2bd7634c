"""How a process records: patches, exclusive time, and the record file."""
