"""The lab: every variant checked against its reference, then timed in turn."""
