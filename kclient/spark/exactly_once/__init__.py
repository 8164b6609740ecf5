"""Exactly once: what a query writes is in Kafka once, whatever dies on the way, as far as readers of committed records
see. A two-phase commit over ordinary Kafka transactions; nothing here knows of PySpark.

For each batch

1. each task writes its rows in a transaction of its own, prepares it (everything is written, nothing is visible), and
   returns what is needed to end it (`task`);
2. the driver sees that all are open, with time left (`recovery.check_open`);
3. it writes one small transaction, by which the batch's number becomes the committed offset of the query's group, with
   the list of the tasks' transactions as its metadata (`decision`). **This is the commit of the batch.** Before it,
   nothing of the batch counts, and after it, all will;
4. it commits each of the listed transactions (`driver`, `recovery.commit_all`); then Spark notes the batch as done.

Why it holds, by where it ends:

- Before 3: the batch is not decided. Spark runs it again. What the old tasks left open is aborted at the end of a run's
  first batch, with or without rows (`recovery.sweep`), so that it holds up readers no longer than that. Their ids are
  fenced, so that an old task that is still running cannot open another transaction.
- In 3: the decision is a transaction. Tasks and driver read offsets that are stable, so what they see is final. One
  that its driver did not end is ended by fencing that driver.
- After 3: Spark runs the batch again. Its tasks read the decision first, commit what they find of their own, and write
  nothing; the driver commits the whole list, also if the batch comes back in another number of tasks. To commit twice
  is harmless. But if the checkpoint is older than the decision, Spark has planned the batch anew, and what is new in it
  would be written by nobody. So its rows are counted: a batch before the decided one is known by its number, this one
  by the number of its rows. If it has as many, nothing tells. Order and tasks may differ; a query that makes another
  number of rows of the same input has to say so, and then nothing is compared.
- In 4, for longer than the transactions' timeout: they are aborted by their coordinators, and the rows are lost. This
  is found out when they are to be committed, and `TransactionLostError` names them, each time, until the user acts. If
  he says that the input is repeatable, these tasks alone write anew; their transactions take the place of the lost
  ones by another decision, and only then are completed.

`abort` comes also when `commit` failed half-way, at a point nobody knows. So it fences the driver's id first, after
which step 3 has taken place or never will; reads the decision; and finishes the batch if it is decided.

Who must not get in each other's way:

- Two batches. The ids of tasks carry the parity of the batch: those of the next one leave alone what is still to be
  committed of this one. Those of the one after are the same again, and by then it is complete.
- Two attempts of a task, of which Spark may count either one, even while both run. `init_transactions` aborts what is
  open under its id. So an attempt takes an id on which nothing is open. What is left is a task that stops between
  looking and taking, for so long that another attempt prepares its transaction under the same id; if it then aborts it
  before step 2, the batch fails and runs again; if after step 3, it is a `TransactionLostError`. Nothing is lost in
  silence.
- Two drivers, when the old one was given up but lives. Deciding needs the driver's transactional id; whoever takes it
  fences the other, and reads the decision only then. A batch can be decided once. Who comes late aborts his own
  transactions by their producer id and epoch, which can hit no others. He may also be late to sweep: what was open when
  he looked is fenced only if nobody has decided since. That leaves two small windows, in which tasks of the successor's
  batch after the next are fenced: when the batch between has no rows, as such batches decide nothing, except a stream's
  first; and when the sweep stops between reading the decision and fencing for as long as that batch takes. The batch
  that is hit fails, and runs again; or, if it is decided in that very moment, it is a `TransactionLostError`.
- Two queries with one id, as from a copied checkpoint. Each start of a query is a run with an id of its own; a
  decision names its run and the ones before, and a run that finds itself among these fails.

What a reader may see: with `isolation.level=read_committed` each row once. The tasks' transactions are committed one
after the other, so for a moment (after a crash: until the restart) rows of some tasks of a batch are visible and
those of others not yet. Such readers also wait at the first open transaction of a partition: rows that others wrote
behind it appear when it ends, at the latest after the timeout. With `read_uncommitted` all attempts are visible.

Speculative execution is refused: it makes attempts that nobody needs and nobody aborts in time.
"""

from kclient.spark.exactly_once.driver import abort, commit
from kclient.spark.exactly_once.settings import Place, Settings, Written
from kclient.spark.exactly_once.task import write_task

__all__ = ["Place", "Settings", "Written", "abort", "commit", "write_task"]
