"""From the records of all processes to results."""
