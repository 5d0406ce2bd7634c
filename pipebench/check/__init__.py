"""Looks at every image of a data set, and finds what breaks or changes training. The data is only read."""
