"""Loaders side by side: one recipe over the same data with each loader that is installed.

`kind` is the interface, `kinds/` has one short file for each loader, `recipe` the work that they share. `one_round` is
a fresh process that runs one of them and checks what it gives; `rounds` conducts these processes.
"""
