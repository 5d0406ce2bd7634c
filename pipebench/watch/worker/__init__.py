"""What is observed inside a worker, around the fetcher."""
