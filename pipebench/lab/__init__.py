"""The lab checks every variant against its reference, then times the variants in turn."""
