"""The commands of `refbroker`, one module for each: its options and what it does.

A module has `add_parser`, which declares its options, and functions `(options) -> exit status`. What a command needs is
imported when it runs, so that the other commands start without it.
"""
