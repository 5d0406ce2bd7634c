"""What is observed in the script's own process: loader iterators, loop phases, arrivals of batches."""
