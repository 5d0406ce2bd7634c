"""The instrument measures itself: it watches pipelines whose true times are known, and reports the difference."""
