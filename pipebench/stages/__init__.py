"""The stages of an input pipeline, one module each; every module registers its tasks and variants when imported."""
