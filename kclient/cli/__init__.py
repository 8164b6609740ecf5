"""`kclient` on the command line: pleasant at a terminal, usable in a pipe."""
