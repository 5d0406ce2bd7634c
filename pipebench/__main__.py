"""`python -m pipebench` is the command line."""

from pipebench.cli import main

main()
