"""Starts a script under watch and outlives it."""
