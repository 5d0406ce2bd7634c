"""Training scripts whose true times are known, for `pipebench calibrate`. Each runs as a script, watched or not."""
