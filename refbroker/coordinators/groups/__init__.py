"""Groups: their members and generations, and the offsets they have committed, in `__consumer_offsets`."""
