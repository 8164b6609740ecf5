"""Exactly-once writes: every row of a query is in Kafka once, for readers of committed records, whatever crashes.

A two-phase commit over ordinary Kafka transactions, independent of PySpark. For each batch:

1. Each task writes its rows in its own transaction, prepares it (everything is written, nothing is visible), and
   returns what is needed to end it (`task`).
2. The driver checks that all transactions are open, with enough time left (`recovery.check_open`).
3. The driver writes a small transaction that makes the number of the batch the committed offset of the query's group,
   with the list of the tasks' transactions as its metadata (`decision`). **This decides the batch.** Before it, none of
   the batch is valid; after it, all of it will be.
4. The driver commits each of the listed transactions (`driver`, `recovery.commit_all`). Then Spark records the batch as
   done.

What happens after a crash:

- Before step 3, the batch is not decided, and Spark runs it again. The transactions that old tasks left open are
  aborted at the end of a run's first batch, with or without rows (`recovery.sweep`), so that they do not block readers
  longer. Their transactional ids are fenced, so that an old task that still runs cannot open another transaction.
- During step 3, the outcome is that of the decision, which is a transaction itself. Tasks and drivers read only stable
  offsets, so what they see is final. If the driver of a decision is dead, fencing it ends its transaction.
- After step 3, Spark runs the batch again. Its tasks read the decision first, commit their own listed transactions, and
  write nothing. The driver commits the whole list, even if the batch has another number of tasks now. Committing twice
  has no effect. But if the checkpoint is older than the decision, Spark has planned the batch again, and its new rows
  would be lost. A batch before the decided one is recognized by its number, the decided one by its number of rows; if
  that is equal, the mistake is not detected. Order and tasks may differ. A query whose repeated batch may have another
  number of rows must say so, and then nothing is compared.
- During step 4, for longer than the timeout of the transactions: the coordinators abort them, and the rows are lost.
  The commit detects this, and `TransactionLostError` names the tasks, each time, until the user acts. If the user says
  that the input is repeatable, only these tasks write again. Another decision puts their transactions in the place of
  the lost ones; only then are they completed.

Spark also calls `abort` if `commit` failed at an unknown point. So `abort` first fences the id of the driver, after
which step 3 has taken effect or never will. Then it reads the decision, and completes the batch if it is decided.

Concurrent writers:

- Two batches. The transactional ids of tasks contain the parity of the batch, so the next batch does not affect
  transactions of this one that are not committed yet. The batch after it uses the same ids; by then this one is
  complete.
- Two attempts of a task, of which Spark may use either, even while both run. `init_transactions` aborts the open
  transaction of an id, so an attempt takes an id without one. One case remains: a task pauses between the check and
  `init_transactions` until another attempt has prepared its transaction with the same id. If it aborts that before step
  2, the batch fails and runs again; if later, the result is a `TransactionLostError`. No loss is silent.
- Two drivers, if the old one was given up but lives. A decision requires the transactional id of the driver. Taking it
  fences the other driver, and the decision is read only afterwards, so a batch is decided once. A late driver aborts
  its own transactions by producer id and epoch, which affects no others. It may also sweep late: transactions that were
  open when it checked are fenced only if no other driver has decided since. Two small windows remain in which it fences
  tasks of its successor's batch after the next: if the batch in between has no rows, since such batches are not
  decided, except the first of a stream; and if the sweep pauses, between reading the decision and fencing, for as long
  as that batch takes. The affected batch fails and runs again; if it is decided at that moment, the result is a
  `TransactionLostError`.
- Two queries with the same id, as from a copied checkpoint. Each start of a query is a run with its own id. A decision
  names its run and the earlier ones, and a run that finds itself among the earlier ones fails.

What readers see: with `isolation.level=read_committed`, each row once. The transactions of tasks are committed one
after another, so for a moment (after a crash, until the restart) the rows of only some tasks are visible. Such readers
also wait at the first open transaction of a partition; rows of other producers behind it become visible when it ends,
at the latest after its timeout. With `read_uncommitted`, readers see all attempts.

Speculative execution is refused, because its extra attempts would leave transactions open until their timeout.
"""

from kclient.spark.exactly_once.driver import abort, commit
from kclient.spark.exactly_once.settings import Settings, TaskAttempt, TaskResult
from kclient.spark.exactly_once.task import write_task

__all__ = ["Settings", "TaskAttempt", "TaskResult", "abort", "commit", "write_task"]
