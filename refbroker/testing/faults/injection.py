"""Executes a request with faults: one task per request, for which its connection waits.

Faults are applied in the order in which they were added: those for before, then the request takes effect, then those
for after. One that ends the exchange (an error for the whole request, a drop, a cut) also ends it for later faults,
which do not count it.

An error for some topics or partitions is applied in one of two ways. Usually they are removed from the request, and
their errors are added to the response (`error_answers.merge`), so that they have no effect. If a request may include
them without a name (all topics, a fetch session), or would be empty although its response is needed as a whole
(Metadata, which has the brokers), it is executed and the errors replace parts of its response; none of these has an
effect to prevent, except that Metadata creates topics, which is disabled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any
from uuid import UUID

from kclient.errors import UnsupportedVersionError
from kclient.protocol import Message
from kclient.protocol.frames import API_VERSIONS, encode_response
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.messages.produce import ProduceRequest
from refbroker.handlers.context import Context
from refbroker.handlers.error_answers import (
    failed,
    has_codes_of_topics,
    has_own_code,
    merge,
    outline,
    places_of,
    put_code,
    put_own_code,
)
from refbroker.handlers.naming import named, select
from refbroker.handlers.services import BrokerServices, FetchServices, MetadataServices
from refbroker.server.dispatch import PendingResponse, Received
from refbroker.testing.faults import sessions
from refbroker.testing.faults.damage import flip_bit, truncated
from refbroker.testing.faults.registry import ActiveFault, Faults
from refbroker.testing.faults.rule import Action, Rule, When

logger = logging.getLogger(__name__)

Answered = tuple[Message, int]
"""A response and the version of its API."""
CarryOut = Callable[[Message], Awaitable[Message | None]]


class FaultInjection:
    """Intercepts the requests that match faults.

    Parameters:
        faults: the active faults.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    @property
    def is_active(self) -> bool:
        """Whether there are faults."""
        return bool(self._faults.rules)

    def intercept(self, received: Received, carry_out: CarryOut) -> FaultedRequest | None:
        """Start the injection of the matching faults; None without any."""
        context, request, body, correlation_id, stats = received
        faults = matching(self._faults.rules, context, request)
        if not faults:
            return None
        # The connection may reuse the memory of the request before it is executed.
        own, _ = type(request).decode_prefix(bytearray(body), context.version)
        exchange = Exchange(context, own, correlation_id, carry_out)
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(exchange.run(faults))
        return FaultedRequest(task, context.version, correlation_id, stats)


def matching(rules: Iterable[ActiveFault], context: Context[BrokerServices], request: Message) -> list[ActiveFault]:
    """Return the faults that match a request; whether they apply is decided when it is their turn."""
    found = []
    subjects: set[tuple[str, int | None]] | None = None
    for fault in rules:
        rule = fault.rule
        if rule.api_key not in (None, request.api_key) or rule.version not in (None, context.version):
            continue
        if rule.client_id not in (None, context.client_id):
            continue
        if rule.is_for_part:
            if subjects is None:
                subjects = set(_subjects(context.broker, request))
            # A request without names may mean everything; the response shows it.
            shows_in_answer = not subjects and rule.action in (Action.FAIL, Action.CORRUPT)
            if not shows_in_answer and not any(rule.touches(*subject) for subject in subjects):
                continue
        found.append(fault)
    return found


def _subjects(broker: FetchServices, request: Message) -> Iterator[tuple[str, int | None]]:
    resolve = _resolver(broker)
    yield from named(request, resolve)
    if isinstance(request, FetchRequest):
        yield from sessions.remembered(broker.sessions, request, resolve)


def _resolver(broker: MetadataServices) -> Callable[[UUID], str | None]:
    topics = broker.image.topics_by_id

    def resolve(topic_id: UUID) -> str | None:
        topic = topics.get(topic_id)
        return None if topic is None else topic.name

    return resolve


def _any_topic(topic: str | None, partition: int | None) -> bool:
    return topic is not None


class FaultedRequest(PendingResponse):
    """A request with faults as its connection sees it: the result of the future is an `Answered` or None."""

    def encode(self) -> list[Any] | None:
        answered: Any = self.future.result()
        if answered is None:
            return None
        answer, version = answered
        self.stats.count_errors(answer)
        return encode_response(answer, version, self.correlation_id)


class Exchange:
    """A request with faults, and its response.

    Parameters:
        context, request: as for its handler. The request is changed, and must not be shared.
        correlation_id: the request's correlation id.
        carry_out: executes the request without faults.
    """

    def __init__(
        self, context: Context[BrokerServices], request: Message, correlation_id: int, carry_out: CarryOut
    ) -> None:
        self._context = context
        self._request = request
        self._version = context.version
        self._correlation_id = correlation_id
        self._carry_out = carry_out
        self._resolve = _resolver(context.broker)
        self._wants_answer = not (isinstance(request, ProduceRequest) and request.acks == 0)
        self._answer: Message | None = None
        self._errors: list[Message] = []
        self._overlays: list[ActiveFault] = []

    async def run(self, faults: list[ActiveFault]) -> Answered | None:
        """Execute the request; return the response and its version, None without one."""
        for fault in faults:
            if fault.rule.when is When.BEFORE and await self._before(fault):
                return self._outcome()
        self._answer = await self._carry_out(self._request)
        for errors in self._errors:
            self._add(errors)
        for fault in self._overlays:
            self._lay_over(fault)
        for fault in faults:
            if fault.rule.when is When.AFTER and await self._after(fault):
                break
        return self._outcome()

    def _outcome(self) -> Answered | None:
        return None if self._answer is None else (self._answer, self._version)

    async def _before(self, fault: ActiveFault) -> bool:
        """Apply a fault before the effect; return whether it ended the exchange."""
        match fault.rule.action:
            case Action.FAIL:
                return self._fail_before(fault)
            case Action.CORRUPT:
                self._corrupt(fault, self._request)
                return False
            case _:
                return await self._interrupt(fault)

    async def _after(self, fault: ActiveFault) -> bool:
        """Apply a fault after the effect; return whether it ended the exchange."""
        match fault.rule.action:
            case Action.FAIL:
                self._fail_after(fault)
                return False
            case Action.CORRUPT:
                self._corrupt(fault, self._answer)
                return False
            case Action.TRUNCATE:
                return self._truncate(fault)
            case _:
                return await self._interrupt(fault)

    def _inject(self, fault: ActiveFault) -> bool:
        if not fault.count_request():
            return False
        logger.info("%s %s of %s", fault.rule.action, self._request.message_name, self._context.connection.peer)
        return True

    # Delays, drops, cuts

    async def _interrupt(self, fault: ActiveFault) -> bool:
        if not self._inject(fault):
            return False
        if fault.rule.action is Action.DELAY:
            await fault.delay()
            return False
        self._answer = None
        if fault.rule.action is Action.CUT:
            self._context.connection.close()
        elif self._wants_answer:
            # Until the client gives up: the connection then cancels the task.
            self._context.connection.ignore()
            await asyncio.get_running_loop().create_future()
        return True

    # Errors

    def _fail_before(self, fault: ActiveFault) -> bool:
        rule = fault.rule
        if fault.is_spent:
            return False
        if not self._is_partial(rule) and not isinstance(self._request, MetadataRequest):
            return self._fail_whole(fault)
        covered = [rule.covers(*subject) for subject in named(self._request, self._resolve)]
        if isinstance(self._request, FetchRequest):
            # An error is returned immediately.
            self._request.max_wait_ms = 0
        elif isinstance(self._request, MetadataRequest):
            if rule.is_for_part and any(covered) and not all(covered):
                return self._fail_part(fault)
            self._request.allow_auto_topic_creation = False
        elif any(covered):
            return self._fail_part(fault)
        self._overlays.append(fault)
        return False

    def _is_partial(self, rule: Rule) -> bool:
        """Return whether the response can have the error for some topics only."""
        return rule.is_for_part and has_codes_of_topics(self._request.response_type, self._version)

    def _fail_part(self, fault: ActiveFault) -> bool:
        rule = fault.rule
        if not self._inject(fault):
            return False
        errors = outline(self._request, self._version)
        select(errors, rule.covers, self._resolve)
        put_code(errors, self._version, rule.error, rule.message, topics_only=True)
        self._errors.append(errors)
        select(self._request, lambda topic, partition: not rule.covers(topic, partition), self._resolve)
        if any(named(self._request, self._resolve)):
            return False
        for one in self._errors:
            self._add(one)
        return True

    def _add(self, errors: Message) -> None:
        if not self._wants_answer:
            self._context.connection.close()
        elif self._answer is None:
            self._answer = errors
        else:
            merge(self._answer, errors)

    def _fail_whole(self, fault: ActiveFault) -> bool:
        """Respond with the error only, if the response has a code."""
        rule = fault.rule
        version = self._version
        answer: Message
        if self._request.api_key == API_VERSIONS and rule.error == UnsupportedVersionError.code:
            # The only response that tells a client the supported versions, so it has the oldest form.
            from refbroker.handlers.api_versions import unsupported

            answer, version = unsupported(), 0
        else:
            answer = outline(self._request, version)
            if not put_code(answer, version, rule.error, rule.message):
                return False
        if not self._inject(fault):
            return False
        self._version = version
        self._answer = None
        self._add(answer)
        return True

    def _fail_after(self, fault: ActiveFault) -> None:
        if self._is_partial(fault.rule) or isinstance(self._request, MetadataRequest):
            self._lay_over(fault)
        else:
            self._fail_whole(fault)

    def _lay_over(self, fault: ActiveFault) -> None:
        """Overwrite the response's entries for some topics, or for all, with errors."""
        rule, answer = fault.rule, self._answer
        if fault.is_spent:
            return
        if answer is None:
            means_it = any(rule.touches(*subject) for subject in named(self._request, self._resolve))
            if not self._wants_answer and means_it and self._inject(fault):
                self._context.connection.close()
            return
        if isinstance(self._request, FetchRequest) and isinstance(answer, FetchResponse):
            sessions.recall(self._context.broker.sessions, answer, rule.covers, self._resolve)
        covers = rule.covers if rule.is_for_part else _any_topic
        places = list(places_of(answer, self._version, covers, self._resolve))
        says_it_itself = not rule.is_for_part and has_own_code(type(answer), self._version)
        if not (places or says_it_itself) or not self._inject(fault):
            return
        for items, index in places:
            items[index] = failed(items[index], self._version, rule.error, rule.message)
        if says_it_itself:
            put_own_code(answer, self._version, rule.error, rule.message)

    # Damage

    def _corrupt(self, fault: ActiveFault, message: Message | None) -> None:
        covers = fault.rule.covers if fault.rule.is_for_part else _any_topic
        if message is not None:
            flip_bit(message, covers, self._resolve, lambda: self._inject(fault))

    def _truncate(self, fault: ActiveFault) -> bool:
        if self._answer is None or not self._inject(fault):
            return False
        parts = encode_response(self._answer, self._version, self._correlation_id)
        self._context.connection.transport.write(truncated(parts))
        self._context.connection.close()
        self._answer = None
        return True
