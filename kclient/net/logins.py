"""What a client needs to log in with SASL: its login, the thread for what takes long, and the steps of its connections.

Elsewhere: the step (`sasl`), the thread (`login_thread`), and the options (`kclient.config.login`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kclient.config import ClientConfig
from kclient.net.handshake import Step, find_versions
from kclient.net.login_thread import LoginThread
from kclient.net.runtime import Runtime
from kclient.net.sasl import authenticate
from kclient.net.waiting import LoopBridge
from kclient.security.aws.login import MskLogin, MskSettings
from kclient.security.kerberos.login import KerberosLogin
from kclient.security.kerberos.settings import KerberosSettings
from kclient.security.oauth.settings import OAuthSettings
from kclient.security.oauth.source import TokenSource
from kclient.security.sasl import Login


class ClientLogin:
    """The login of one client.

    Parameters:
        config: the client's options, which use SASL.
        runtime: provides the thread and the time.
        name: the prefix of the thread's name.
        submit: runs a function on the network thread.
        clock: seconds.
        rng: for jitter.
        bridge: the bridge into the event loop of an async client, which runs coroutines of the application.

    Attributes:
        thread: the thread for what takes long; a manager of the client.
        steps: the set-up of the client's connections.
    """

    def __init__(
        self,
        config: ClientConfig,
        runtime: Runtime,
        name: str,
        *,
        submit: Callable[[Callable[[], None]], None],
        clock: Callable[[], float],
        rng: random.Random,
        bridge: LoopBridge | None = None,
    ) -> None:
        longest = max(config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms) / 1000
        self.thread = LoginThread(lambda: runtime.worker(f"{name}-login"), submit, clock, longest)
        settings = config.sasl
        login: Login
        if isinstance(settings, OAuthSettings):
            login = source = TokenSource(
                settings.provide(runtime.time_ms, None if bridge is None else bridge.run),
                who=settings.who,
                options=settings.options,
                awaits=settings.awaits,
                policy=settings.policy,
                clock=clock,
                time_ms=runtime.time_ms,
                rng=rng,
            )
            self.thread.keep_fresh(source)
        elif isinstance(settings, KerberosSettings):
            login = tickets = KerberosLogin(settings, clock=clock, rng=rng)
            self.thread.keep_fresh(tickets)
        elif isinstance(settings, MskSettings):
            login = MskLogin(settings, runtime.time_ms)
        else:
            login = settings
        self.steps: Sequence[Step] = (find_versions, authenticate(login, self.thread, rng))
