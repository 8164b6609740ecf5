"""A consumer against a cluster that misbehaves, by seed: answers come late or never, leaders move, logs are cut."""

from __future__ import annotations

import random

import pytest

from kclient.protocol.messages.fetch import FetchRequest
from kclient.types import TopicPartition
from tests.support.consumer_model import Model


class Run:
    """One seeded run; `expected` is what every partition must deliver, offset by offset."""

    def __init__(self, seed: int, *, truncating: bool) -> None:
        self.rng = random.Random(seed)
        rng = self.rng
        self.truncating = truncating
        # Before v9 a Fetch carries no leader epoch, so a broker cannot tell that the log was cut meanwhile.
        versions = [9, 11, 12, 13, 18] if truncating else [4, 7, 11, 12, 13, 16, 18]
        self.model = Model(
            seed=seed,
            versions={FetchRequest: rng.choice(versions)},
            max_partition_fetch_bytes=rng.choice([100, 400, 5_000]),
            prefetch_max_bytes=rng.choice([500, 3_000, 50_000]),
            fetch_max_bytes=rng.choice([300, 2_000, 60_000]),
        )
        self.logs = self.model.add_topic("t", rng.randint(1, 5))
        self.partitions = [TopicPartition("t", number) for number in range(len(self.logs))]
        self.seen: dict[int, list[tuple[int, bytes]]] = {tp.partition: [] for tp in self.partitions}
        self.count = 0

    def step(self) -> None:
        rng, model = self.rng, self.model
        model.now += rng.choice([0.0, 0.001, 0.05, 1.0])
        action = rng.random()
        if action < 0.25:
            self.append(rng.choice(self.logs))
        elif action < 0.30:
            rng.choice(self.logs).move(rng.randint(1, 3))
        elif action < 0.33 and self.truncating:
            self.truncate(rng.choice(self.logs))
        elif action < 0.38:
            self.seek_within(rng.choice(self.partitions))
        elif action < 0.45:
            model.subscription.pause([rng.choice(self.partitions)])
        elif action < 0.55:
            model.subscription.resume(self.partitions)
        elif action < 0.58:
            model.sessions[rng.randint(1, 3)].known.clear()
        elif action < 0.62:
            model.nodes.down ^= {rng.randint(1, 3)}
        elif action < 0.80:
            self.read(rng.randint(1, 20))
        if model.metadata.update_requested and rng.random() < 0.5:
            model.refresh()
        model.poll()
        for request in list(model.outbox):
            fate = rng.random()
            if fate < 0.05:
                model.lose(request)
            elif fate < 0.6:
                model.deliver(request)

    def append(self, log: object) -> None:
        values = []
        for _ in range(self.rng.randint(1, 4)):
            self.count += 1
            values.append(b"%d" % self.count + b"." * self.rng.choice([0, 10, 300]))
        log.append(*values)  # type: ignore[attr-defined]

    def truncate(self, log: object) -> None:
        """The leader is gone, and with it the end of its log; the next one has other records there."""
        cut = self.rng.randint(max(0, log.end - 5), log.end)  # type: ignore[attr-defined]
        log.truncate(cut)  # type: ignore[attr-defined]
        log.move(self.rng.randint(1, 3))  # type: ignore[attr-defined]
        self.append(log)

    def seek_within(self, tp: TopicPartition) -> None:
        if self.truncating:
            return
        seen = self.seen[tp.partition]
        if seen and self.rng.random() < 0.5:
            keep = self.rng.randint(0, len(seen))
            del seen[keep:]
            self.model.subscription.seek(tp, keep)

    def read(self, count: int) -> None:
        for _, partition, offset, value in self.model.read(count):
            seen = self.seen[partition]
            if self.truncating and offset < len(seen):
                del seen[offset:]
            assert offset == len(seen), f"partition {partition}: read {offset}, expected {len(seen)}"
            seen.append((offset, value))

    def finish(self) -> None:
        """Without faults, everything that is in the logs arrives, and nothing comes after it."""
        model = self.model
        model.nodes.down.clear()
        model.subscription.resume(self.partitions)
        for request in list(model.outbox):
            model.lose(request)
        rounds = after = 0
        while after < 3:
            after += self.seen == self.logged()
            rounds += 1
            assert rounds < 300, {partition: len(seen) for partition, seen in self.seen.items()}
            model.now += 2.0
            model.run(rounds=4)
            self.read(1_000)

    def logged(self) -> dict[int, list[tuple[int, bytes]]]:
        """What every partition's log has, as it is read."""
        return {
            tp.partition: list(enumerate(value for batch in log.batches for value in batch.values))
            for tp, log in zip(self.partitions, self.logs, strict=True)
        }


def check(seed: int, *, truncating: bool) -> None:
    run = Run(seed, truncating=truncating)
    run.model.assign(*run.partitions)
    for _ in range(300):
        run.step()
    run.finish()
    assert run.seen == run.logged(), "what was read is not what is in the log"
    assert run.model.buffer.bytes == 0


@pytest.mark.parametrize("seed", range(60))
def test_every_offset_arrives_once_and_in_order(seed: int) -> None:
    check(seed, truncating=False)


@pytest.mark.parametrize("seed", range(60))
def test_what_is_read_equals_the_log_after_truncations(seed: int) -> None:
    check(seed, truncating=True)
