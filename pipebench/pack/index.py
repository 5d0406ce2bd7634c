"""The index of new shards, in the format that webdataset's `ShardListDataset` (wids) reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pipebench.host.whole_files import write_whole
from pipebench.pack.sources import Target, key

NAME = "index.json"


def write(folder: Path, shards: Sequence[Target]) -> None:
    """Writes the names of the shards, their sizes in bytes and how many samples each holds."""
    rows = [
        {
            "url": one.name,
            "nsamples": len({key(member.name) for member in one.members()}),
            "filesize": (folder / one.name).stat().st_size,
        }
        for one in shards
    ]
    content = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": rows}
    write_whole(folder / NAME, json.dumps(content, indent=1).encode() + b"\n")
