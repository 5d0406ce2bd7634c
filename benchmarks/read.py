"""Loose files against tar shards, from a warm page cache."""

from . import asvbench


class Image(asvbench.Task):
    task = "read/image"
    long_view = ("open", "webdataset")


@asvbench.detail
class AllMembers(asvbench.Task):
    task = "read/all-members"
