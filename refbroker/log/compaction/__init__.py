"""Compaction: a log keeps the last record of each key, and forgets the others (`cleanup.policy=compact`).

`manager` chooses logs (`selection`, `states`) and runs passes over them (`cleaner`): a pass notes the latest offset
of each key (`offset_map`), decides for each batch what stays (`filtering`, `transactions`), writes it anew
(`rewriting`), and puts segments, together with their neighbours (`grouping`), in the place of others, at a pace that
leaves something over for others (`throttle`). How the parts fit, and what differs from Kafka:
docs/internals/compaction.md.
"""
