"""Compaction: a log keeps the last record of each key (`cleanup.policy=compact`).

`manager` chooses logs (`selection`, `states`) and runs passes over them (`cleaner`): a pass records the latest offset
of each key (`offset_map`), decides which records of a batch stay (`filtering`, `transactions`), rewrites it
(`rewriting`), and replaces segments, combined with their neighbours (`grouping`), at a limited rate (`throttle`). How
the parts fit, and what differs from Kafka: docs/internals/compaction.md.
"""
