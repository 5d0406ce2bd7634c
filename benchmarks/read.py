"""Loose files against tar shards, from a warm page cache."""

from pipebench import asvbench


class Image(asvbench.Task):
    task = "read/image"
    calls = 16


class AllMembers(asvbench.Task):
    task = "read/all-members"
    calls = 8
