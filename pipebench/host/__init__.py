"""Facts about this host, its limits, clocks, page cache and files. Importing these modules does not import torch."""
