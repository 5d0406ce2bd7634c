"""Shards on a server: which addresses there are, how one is fetched, and what several connections give."""
