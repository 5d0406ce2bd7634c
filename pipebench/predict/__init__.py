"""Predicts what a training loop would do in a setting that was not tried: more workers, other cores, a faster stage."""
