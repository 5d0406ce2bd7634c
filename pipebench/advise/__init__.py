"""Conducts the trials of `pipebench advise` from outside the script: what is tried next, and what is best."""
