"""Training scripts whose truth is known, for `pipebench calibrate`: each is run as a script, watched or plainly."""
