"""Turns the records of all processes into results."""
