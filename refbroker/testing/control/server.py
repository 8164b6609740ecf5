"""The control port: what a test may do to a broker in another process, as JSON over HTTP.

    GET    /state                                     where it listens, whether it runs, its clock, its topics
    POST   /start, /stop, /kill, /restart             {}
    POST   /power-failure                             {"seed": 7}, and then /start
    POST   /elect                                     {"topic": "orders", "partition": 0}
    GET    /faults                                    the faults, with the number of requests of each
    GET    /faults?id=1&fired=3&timeout=10            wait until it was applied to three requests; 408 after that time
    POST   /faults                                    {"action": "fail", "api": "Produce", "error": ..., "count": 3}
    DELETE /faults?id=1                               remove it; without an id remove all
    GET    /clock
    POST   /clock/hold, /clock/step, /clock/run       {"at_ms": ...}, {"seconds": 60}, {}
    POST   /disk/fail, /disk/fill, /disk/heal         {"path_prefix": ..., "operation": ..., ...}, {"bytes_left": 0}, {}
    GET    /metrics                                   the page for Prometheus

A response is an object; with a status of 400 or more it has `error`, a message, and `name`, Kafka's or Python's name of
the error. Every client of the port can do all of this: it is for loopback, and has no authentication.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import math
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from kclient.errors import ConfigError, IllegalStateError, KafkaError, UnknownTopicOrPartitionError
from refbroker.broker import Broker
from refbroker.server.http import HttpRequest, HttpResponse, HttpServer, json_response
from refbroker.server.metrics.page import COLLECT_SECONDS, PATH
from refbroker.testing.faults import Rule
from refbroker.testing.faults.registry import ActiveFault

if TYPE_CHECKING:
    from refbroker.testing import RefBroker

STATUS: tuple[tuple[type[Exception], int], ...] = (
    (UnknownTopicOrPartitionError, HTTPStatus.NOT_FOUND),
    (LookupError, HTTPStatus.NOT_FOUND),
    (TimeoutError, HTTPStatus.REQUEST_TIMEOUT),
    (IllegalStateError, HTTPStatus.CONFLICT),
    (ValueError, HTTPStatus.BAD_REQUEST),
    (OverflowError, HTTPStatus.BAD_REQUEST),
    (KafkaError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (OSError, HTTPStatus.INTERNAL_SERVER_ERROR),
)
"""The HTTP status of each error; the first match counts. ConfigError is a ValueError."""

Do = Callable[[dict[str, Any]], Any]


class ControlServer:
    """Serves the control port of a broker. A context manager.

    Parameters:
        kafka: the broker, which may be stopped and started through the port.
        host: the address to listen on.
        port: 0 picks a free one.

    Attributes:
        url: the URL of the port, once it runs.
    """

    def __init__(self, kafka: RefBroker, host: str, port: int) -> None:
        self.url = ""
        self._kafka = kafka
        self._starting_or_stopping = threading.Lock()
        gets = {
            "/state": self._state,
            "/faults": self._faults,
            "/clock": lambda given: self._clock(),
        }
        posts = {
            "/start": self._alone(lambda given: self._start()),
            "/stop": self._alone(lambda given: kafka.stop()),
            "/kill": self._alone(lambda given: kafka.kill()),
            "/restart": self._alone(lambda given: kafka.restart()),
            "/power-failure": self._alone(self._power_failure),
            "/elect": self._elect,
            "/faults": lambda given: _shown(kafka.faults.add(Rule.from_json(given))),
            "/clock/hold": self._hold,
            "/clock/step": self._step,
            "/clock/run": lambda given: kafka.clock.run(),
            "/disk/fail": self._fail_disk,
            "/disk/fill": lambda given: kafka.disk.fill(_take(given, "bytes_left", int)),
            "/disk/heal": lambda given: kafka.disk.heal(),
        }
        routes = {("GET", path): _from_query(do) for path, do in gets.items()}
        routes |= {("POST", path): _from_body(do) for path, do in posts.items()}
        routes["DELETE", "/faults"] = _from_query(self._remove_faults)
        routes["GET", PATH] = metrics_page(kafka)
        self._server = HttpServer(host, port, routes)

    def __enter__(self) -> ControlServer:
        self._server.start()
        self.url = self._server.url
        return self

    def __exit__(self, *error: object) -> None:
        self._server.close()

    def _state(self, given: dict[str, Any]) -> dict[str, Any]:
        kafka = self._kafka

        def topics(broker: Broker) -> dict[str, Any]:
            return {
                topic.name: {
                    "id": str(topic.topic_id),
                    "leader_epochs": [topic.partitions[number].leader_epoch for number in sorted(topic.partitions)],
                }
                for topic in broker.parts.image.topics.values()
            }

        return {
            "bootstrap_servers": kafka.bootstrap_servers,
            "data_dir": str(kafka.data_dir),
            "running": kafka.is_running,
            "clock": self._clock(),
            "topics": kafka.call(topics) if kafka.is_running else {},
        }

    def _alone(self, do: Do) -> Do:
        """Serialize requests, which have threads of their own, so that one at a time starts or stops a broker."""

        def locked(given: dict[str, Any]) -> Any:
            with self._starting_or_stopping:
                return do(given)

        return locked

    def _start(self) -> None:
        self._kafka.start()

    def _power_failure(self, given: dict[str, Any]) -> dict[str, Any]:
        return dataclasses.asdict(self._kafka.lose_power(_take(given, "seed", int)))

    def _elect(self, given: dict[str, Any]) -> dict[str, Any]:
        partition = _take(given, "partition", int) if "partition" in given else 0
        return {"leader_epoch": self._kafka.elect(_take(given, "topic", str), partition)}

    # Faults

    def _faults(self, given: dict[str, Any]) -> dict[str, Any]:
        faults = self._kafka.faults
        if "id" not in given:
            return {"faults": [_shown(fault) for fault in faults.list() if isinstance(fault, ActiveFault)]}
        fault = self._find(given)
        if "fired" in given:
            fault.wait(int(_number(given, "fired")), _number(given, "timeout") if "timeout" in given else 10.0)
        return _shown(fault)

    def _remove_faults(self, given: dict[str, Any]) -> dict[str, Any]:
        if "id" not in given:
            self._kafka.faults.clear()
            return {}
        fault = self._find(given)
        fault.remove()
        return _shown(fault)

    def _find(self, given: dict[str, Any]) -> ActiveFault:
        fault = self._kafka.faults.find(int(_number(given, "id")))
        if fault is None:
            raise LookupError(f"there is no fault {given['id']}, or it was removed")
        return fault

    # Clock and disk

    def _clock(self) -> dict[str, Any]:
        return {"now_ms": self._kafka.clock.now_ms, "is_held": self._kafka.clock.is_held}

    def _hold(self, given: dict[str, Any]) -> dict[str, Any]:
        self._kafka.clock.hold(_take(given, "at_ms", int) if "at_ms" in given else None)
        return self._clock()

    def _step(self, given: dict[str, Any]) -> dict[str, Any]:
        self._kafka.clock.step(_take(given, "seconds", int, float))
        return self._clock()

    def _fail_disk(self, given: dict[str, Any]) -> None:
        options = dict(given)
        if isinstance(options.get("error"), str):
            if options["error"] not in errno.errorcode.values():
                raise ConfigError(f"{options['error']} is not the name of an error; ENOSPC and EIO are")
            options["error"] = getattr(errno, options["error"])
        allowed = {"path_prefix": str, "operation": str, "error": int, "after": int, "count": int}
        for name in options:
            if name not in allowed:
                raise ConfigError(f"a fault of the disk has no {name}; it has {', '.join(allowed)}")
            if options[name] is not None:
                _take(options, name, allowed[name])
        self._kafka.disk.fail(**options)


def metrics_page(kafka: RefBroker) -> Callable[[HttpRequest], HttpResponse]:
    """Return the handler of the Prometheus page, which survives restarts of the broker."""
    from refbroker.metrics.exposition import CONTENT_TYPE, as_text

    def page(request: HttpRequest) -> HttpResponse:
        try:
            samples = kafka.wait_for(Broker.collect_metrics, COLLECT_SECONDS)
        except (IllegalStateError, TimeoutError) as error:
            return _failed(error)
        return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, as_text(samples).encode())

    return page


def _from_query(do: Do) -> Callable[[HttpRequest], HttpResponse]:
    return lambda request: _answer(do, dict(request.query))


def _from_body(do: Do) -> Callable[[HttpRequest], HttpResponse]:
    def handle(request: HttpRequest) -> HttpResponse:
        try:
            try:
                given = json.loads(request.body or b"{}")
            except ValueError as error:
                raise ConfigError(f"the body is not JSON: {error}") from error
            if not isinstance(given, dict):
                raise ConfigError(f"the body must be an object, unlike {given!r:.60}")
        except ValueError as error:
            return _failed(error)
        return _answer(do, given)

    return handle


def _answer(do: Do, given: dict[str, Any]) -> HttpResponse:
    try:
        return json_response(do(given) or {})
    except Exception as error:
        if not isinstance(error, tuple(kind for kind, _ in STATUS)):
            raise
        return _failed(error)


def _failed(error: Exception) -> HttpResponse:
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    if isinstance(error, KafkaError):
        return json_response({"error": error.message, "name": error.name}, status)
    return json_response({"error": str(error), "name": type(error).__name__}, status)


def _take(given: dict[str, Any], name: str, *kinds: type) -> Any:
    value = given.get(name)
    if not isinstance(value, kinds) or isinstance(value, bool):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ConfigError(f"{name} must be {wanted}, not {value!r:.60}")
    return value


def _number(query: dict[str, Any], name: str) -> float:
    with contextlib.suppress(ValueError):
        value = float(query[name])
        if math.isfinite(value):
            return value
    raise ConfigError(f"{name} must be a number, not {query[name]!r:.60}")


def _shown(fault: ActiveFault) -> dict[str, Any]:
    return {"id": fault.number, **fault.rule.as_json(), "fired": fault.fired}
