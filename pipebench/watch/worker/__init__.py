"""Observes a worker from the inside, around its fetcher."""
