"""A client of the control port of a broker in another process, with the methods of `RefBroker`.

control = RemoteControl("http://127.0.0.1:41234")        # as `refbroker run --control-port 0` prints it
with control.faults.cut("Produce", when="after") as fault:
    ...
    fault.wait()
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kclient.errors import (
    BrokerConnectionError,
    BrokerError,
    ConfigError,
    IllegalStateError,
    KafkaError,
    UnknownServerError,
)
from refbroker.testing.control.clock import STEP_SECONDS, ClockMethods
from refbroker.testing.faults import Fault, FaultMethods, Rule

if TYPE_CHECKING:
    from refbroker.testing.simulated_disk import Operation

REQUEST_SECONDS = 30.0


class RemoteControl:
    """A broker in another process, controlled by a test. Any thread may use it.

    Parameters:
        url: the URL of its control port.

    Attributes:
        faults, clock: as in `RefBroker`.
        disk: as `SimulatedDisk`, if the broker was started with one.
    """

    def __init__(self, url: str) -> None:
        self._http = _Http(url)
        self.faults: FaultMethods = _RemoteFaults(self._http)
        self.clock: ClockMethods = _RemoteClock(self._http)
        self.disk = RemoteDisk(self._http)

    def state(self) -> dict[str, Any]:
        """Return where it listens, whether it runs, its clock and its topics."""
        return self._http.ask("GET", "/state")

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients."""
        return str(self.state()["bootstrap_servers"])

    @property
    def is_running(self) -> bool:
        """Whether the broker runs."""
        return bool(self.state()["running"])

    def start(self) -> None:
        """Start it, with its previous port and files."""
        self._http.ask("POST", "/start")

    def stop(self) -> None:
        """Stop it cleanly; the process and the control port stay."""
        self._http.ask("POST", "/stop")

    def kill(self) -> None:
        """Stop it as a crash would; the process and the control port stay, and `start` recovers."""
        self._http.ask("POST", "/kill")

    def restart(self) -> None:
        """Stop it and start it again."""
        self._http.ask("POST", "/restart")

    def lose_power(self, seed: int) -> dict[str, int]:
        """Stop it like `kill`, and remove unflushed data from its simulated disk; return what was lost."""
        return self._http.ask("POST", "/power-failure", {"seed": seed})

    def elect(self, topic: str, partition: int = 0) -> int:
        """Elect the leader of a partition again, and return the leader epoch."""
        return int(self._http.ask("POST", "/elect", {"topic": topic, "partition": partition})["leader_epoch"])


class _Http:
    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float = REQUEST_SECONDS
    ) -> dict[str, Any]:
        import urllib.error
        import urllib.parse
        import urllib.request

        # A proxy from the environment is not for a broker on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self._url + path, data=data, method=method)
        try:
            with opener.open(request, timeout=timeout) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            with error:
                raise _error(error.code, json.load(error)) from None
        except urllib.error.URLError as error:
            host, _, port = urllib.parse.urlsplit(self._url).netloc.rpartition(":")
            advice = "check that the broker runs with --control-port, and that this is the port it printed"
            raise BrokerConnectionError(host, int(port or 80), error.reason, advice=advice) from error


def _error(status: int, answer: dict[str, Any]) -> Exception:
    text, name = str(answer.get("error")), str(answer.get("name"))
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return TimeoutError(text)
    kinds: dict[str, type[KafkaError]] = {kind.name: kind for kind in BrokerError.by_code.values()}
    kinds |= {kind.name: kind for kind in (ConfigError, IllegalStateError)}
    usual = ConfigError if status < HTTPStatus.INTERNAL_SERVER_ERROR else UnknownServerError
    return kinds.get(name, usual)(text)


class _RemoteFaults(FaultMethods):
    def __init__(self, http: _Http) -> None:
        self._http = http

    def add(self, rule: Rule) -> Fault:
        return _RemoteFault(self._http, self._http.ask("POST", "/faults", rule.as_json()))

    def list(self) -> list[Fault]:
        return [_RemoteFault(self._http, shown) for shown in self._http.ask("GET", "/faults")["faults"]]

    def clear(self) -> None:
        self._http.ask("DELETE", "/faults")


class _RemoteFault(Fault):
    def __init__(self, http: _Http, shown: dict[str, Any]) -> None:
        self._http = http
        self._path = f"/faults?id={shown['id']}"
        self._rule = Rule.from_json({name: value for name, value in shown.items() if name not in ("id", "fired")})
        self._fired: int | None = None

    @property
    def rule(self) -> Rule:
        return self._rule

    @property
    def fired(self) -> int:
        return int(self._http.ask("GET", self._path)["fired"]) if self._fired is None else self._fired

    def wait(self, count: int = 1, timeout: float = 10.0) -> None:
        path = f"{self._path}&fired={count}&timeout={timeout}"
        self._http.ask("GET", path, timeout=timeout + REQUEST_SECONDS)

    def remove(self) -> None:
        if self._fired is None:
            self._fired = int(self._http.ask("DELETE", self._path)["fired"])


class _RemoteClock(ClockMethods):
    def __init__(self, http: _Http) -> None:
        self._http = http

    def hold(self, at_ms: int | None = None) -> None:
        self._http.ask("POST", "/clock/hold", {} if at_ms is None else {"at_ms": at_ms})

    def step(self, seconds: float) -> None:
        self._http.ask("POST", "/clock/step", {"seconds": seconds}, timeout=STEP_SECONDS + REQUEST_SECONDS)

    def run(self) -> None:
        self._http.ask("POST", "/clock/run")

    @property
    def now_ms(self) -> int:
        return int(self._http.ask("GET", "/clock")["now_ms"])

    @property
    def is_held(self) -> bool:
        return bool(self._http.ask("GET", "/clock")["is_held"])


class RemoteDisk:
    """The simulated disk of a broker in another process; the methods are those of `SimulatedDisk`."""

    def __init__(self, http: _Http) -> None:
        self._http = http

    def fail(
        self,
        *,
        path_prefix: Path | str = "",
        operation: Operation | None = None,
        error: int | None = None,
        after: int = 0,
        count: int | None = None,
    ) -> None:
        """Make operations fail."""
        given: dict[str, Any] = {
            "path_prefix": str(path_prefix),
            "operation": operation,
            "after": after,
            "count": count,
        }
        self._http.ask("POST", "/disk/fail", given if error is None else {**given, "error": error})

    def fill(self, bytes_left: int) -> None:
        """Make writes fail once files have grown by this many bytes."""
        self._http.ask("POST", "/disk/fill", {"bytes_left": bytes_left})

    def heal(self) -> None:
        """Drop pending errors, and have unlimited space."""
        self._http.ask("POST", "/disk/heal")
