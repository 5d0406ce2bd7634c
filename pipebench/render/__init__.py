"""Reports as something to look at. Every renderer is a pure function of a report."""
