"""The instrument measures itself: pipelines whose truth is known, watched, and the difference reported."""
