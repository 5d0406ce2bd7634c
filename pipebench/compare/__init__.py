"""Two commits, or two settings, measured against each other in live processes."""
