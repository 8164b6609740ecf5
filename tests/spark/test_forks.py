"""Clients that a process keeps, in its forked children: not used there, not waited for, and not harmed."""

from __future__ import annotations

import gc
import os
import sys
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kclient import Admin, Consumer, Producer
from kclient.errors import ForkError
from kclient.spark.consumers import ConsumerCache, open_consumer
from kclient.spark.exactly_once.clients import Clients
from kclient.spark.exactly_once.settings import Settings
from kclient.spark.forks import forget_in_children
from kclient.spark.options import ReadOptions, WriteOptions
from kclient.spark.producers import ProducerCache, open_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def check_in_child(check: Callable[[], object]) -> None:
    """Run a check in a forked child; fail if it fails, warns, or does not come to an end."""
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        told: list[Any] = []
        sys.unraisablehook = told.append
        try:
            check()
            gc.collect()
            code = 2 if told else 0
            sys.stderr.write("".join(map(str, told)))
        except BaseException:  # noqa: BLE001 - the parent gets the exit code, and the log this
            traceback.print_exc()
        finally:
            os._exit(code)
    ended: list[int] = []

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(pid)

    try:
        wait_until(has_ended)
    finally:
        if not ended:
            os.kill(child, 9)
            os.waitpid(child, 0)
    assert ended == [0]


@contextmanager
def held(lock: Any) -> Iterator[None]:
    """Another thread of this process has the lock."""
    taken, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            enough.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        enough.set()
        thread.join()


class Opened:
    """Opens clients, and counts them."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self.count = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.count += 1
        return self._make(*arguments, **options)


def test_consumers_of_the_parent_are_not_used_in_a_child(bootstrap_servers: str, topic: str) -> None:
    opened = Opened(open_consumer)
    cache = ConsumerCache(opened)
    options = ReadOptions(client={"bootstrap.servers": bootstrap_servers}, subscribe=(topic,))

    def use() -> None:
        with cache.borrow(options) as consumer:
            consumer.list_topics()

    def in_child() -> None:
        use()
        assert opened.count == 2
        cache.close()

    use()
    with held(cache._lock):
        check_in_child(in_child)
    use()
    assert opened.count == 1
    cache.close()


def test_producers_of_the_parent_are_not_used_in_a_child(bootstrap_servers: str, topic: str, admin: Admin) -> None:
    opened = Opened(open_producer)
    cache = ProducerCache(opened)
    options = WriteOptions(client={"bootstrap.servers": bootstrap_servers}, topic=topic)

    def use() -> None:
        with cache.borrow(options) as producer:
            producer.send(topic, b"row").result(10)

    def in_child() -> None:
        use()
        assert opened.count == 2
        cache.close()

    use()
    with held(cache._lock):
        check_in_child(in_child)
    use()
    assert opened.count == 1
    cache.close()


def test_clients_of_the_parent_that_write_exactly_once_are_not_used_in_a_child(
    bootstrap_servers: str, topic: str
) -> None:
    producers, admins = Opened(Producer.from_properties), Opened(Admin.from_properties)
    clients = Clients(producers, admins)
    settings = Settings(client={"bootstrap.servers": bootstrap_servers}, query=topic, decision_topic=topic)

    def in_child() -> None:
        clients.admin(settings).describe_cluster()
        with clients.task(settings, f"{topic}-task") as producer:
            producer.init_transactions()
        assert (producers.count, admins.count) == (3, 2)
        clients.close()

    clients.admin(settings).describe_cluster()
    with clients.task(settings, f"{topic}-other") as producer:
        producer.init_transactions()
    del producer
    clients.driver(settings).begin_transaction()
    with held(clients._lock):
        check_in_child(in_child)
    # The child has neither fenced nor aborted what was open.
    clients.driver(settings).send(topic, b"row").result(10)
    clients.driver(settings).commit_transaction()
    clients.admin(settings).describe_cluster()
    assert (producers.count, admins.count) == (2, 1)
    clients.close()


def test_a_consumer_that_was_lent_before_the_fork_is_not_kept_by_the_child(bootstrap_servers: str, topic: str) -> None:
    cache = ConsumerCache()
    options = ReadOptions(client={"bootstrap.servers": bootstrap_servers}, subscribe=(topic,))
    lent = cache.borrow(options)
    theirs: list[Consumer] = [lent.__enter__()]

    def in_child() -> None:
        with pytest.raises(ForkError):
            lent.__exit__(None, None, None)
        with cache.borrow(options) as own:
            assert own is not theirs[0]
        cache.close()

    check_in_child(in_child)
    theirs[0].list_topics()
    lent.__exit__(None, None, None)
    with cache.borrow(options) as again:
        assert again is theirs[0]
    cache.close()


def test_the_client_of_a_registry_is_not_used_in_a_child() -> None:
    pytest.importorskip("confluent_kafka.schema_registry", reason="the extra registry is not installed")
    from kclient.spark.values.columns import _client

    registry = (("url", "http://127.0.0.1:1"),)
    theirs = _client(registry)

    def in_child() -> None:
        assert _client(registry) is not theirs

    check_in_child(in_child)
    assert _client(registry) is theirs


def test_a_cache_that_is_gone_is_not_kept_for_its_children() -> None:
    class Cache:
        def __init__(self) -> None:
            forget_in_children(self.forget)

        def forget(self) -> None:
            raise AssertionError

    cache = weakref.ref(Cache())
    gc.collect()
    assert cache() is None
    check_in_child(lambda: None)
