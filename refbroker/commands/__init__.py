"""The commands of `refbroker`: a module for each, with what its command line takes and what it does.

A module has `add_parser`, which declares its options, and functions `(options) -> exit status`. What a command
needs is imported when it runs, so that the others start without it.
"""
