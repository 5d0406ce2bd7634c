"""Starts a script under watch and supervises it to its end."""
