"""Observes the script's own process: loader iterators, phases of the loop, arrivals of batches."""
