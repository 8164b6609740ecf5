"""Python's clients of others as programs for `secured_clients`: `python -m tests.interop.secured_programs NAME JSON`.

A program writes a record to a topic, and reads it in a group. It prints "read LENGTH", or an error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.patience import ANSWER, CHANGE

VALUE = b"v" * 100_000


def confluent_kafka(access: dict[str, str]) -> str:
    """Run confluent-kafka, which reports failed logins by a callback."""
    import confluent_kafka as confluent

    errors: list[Any] = []
    options: dict[str, Any] = {
        "bootstrap.servers": access["server"],
        "ssl.ca.pem": access["authority"],
        "error_cb": errors.append,
        "log_level": 0,
    }
    if access["mechanism"]:
        login = {"sasl.mechanism": "mechanism", "sasl.username": "user", "sasl.password": "password"}
        options |= {"security.protocol": "SASL_SSL", **{option: access[name] for option, name in login.items()}}
    else:
        pair = {"ssl.certificate.pem": access["certificate"], "ssl.key.pem": access["key"]}
        options |= {"security.protocol": "SSL", **pair}
    refusals = (confluent.KafkaError._AUTHENTICATION, confluent.KafkaError._SSL)
    delivered: list[Any] = []
    producer = confluent.Producer(options)
    producer.produce(access["topic"], VALUE, on_delivery=lambda error, _: delivered.append(error))
    while not delivered and not any(error.code() in refusals for error in errors):
        producer.poll(0.1)
    if not delivered or delivered[0] is not None:
        return f"error: {errors} {delivered}"
    consumer = confluent.Consumer({**options, "group.id": access["group"], "auto.offset.reset": "earliest"})
    consumer.subscribe([access["topic"]])
    record = consumer.poll(CHANGE)
    told = f"error: {record and record.error()}" if record is None or record.error() else _read(record.value())
    consumer.close()
    return told


def kafka_python(access: dict[str, str]) -> str:
    """Run kafka-python, which raises that no broker is there, and logs why."""
    import kafka

    with tempfile.TemporaryDirectory() as directory:
        paths = _files(access, Path(directory))
        options = {"bootstrap_servers": access["server"], "ssl_cafile": paths["authority"], **_login(access)}
        if not access["mechanism"]:
            options |= {"ssl_certfile": paths["certificate"], "ssl_keyfile": paths["key"]}
        try:
            producer = kafka.KafkaProducer(bootstrap_timeout_ms=3000, **options)
            producer.send(access["topic"], VALUE).get(timeout=ANSWER)
            producer.close()
            where = {"group_id": access["group"], "auto_offset_reset": "earliest"}
            consumer = kafka.KafkaConsumer(access["topic"], **where, **options)
            told = _read(next(consumer).value)
            consumer.close()
        except kafka.errors.KafkaError as error:
            return f"error: {error!r}"
    return told


async def _aiokafka(access: dict[str, str]) -> str:
    import aiokafka

    context = ssl.create_default_context(cadata=access["authority"])
    if not access["mechanism"]:
        with tempfile.TemporaryDirectory() as directory:
            paths = _files(access, Path(directory))
            context.load_cert_chain(paths["certificate"], paths["key"])
    options = {"bootstrap_servers": access["server"], "ssl_context": context, **_login(access)}
    producer = aiokafka.AIOKafkaProducer(**options)
    try:
        await producer.start()
        await producer.send_and_wait(access["topic"], VALUE)
    except aiokafka.errors.KafkaError as error:
        return f"error: {error!r}"
    finally:
        await producer.stop()
    where = {"group_id": access["group"], "auto_offset_reset": "earliest"}
    consumer = aiokafka.AIOKafkaConsumer(access["topic"], **where, **options)
    await consumer.start()
    record = await consumer.getone()
    await consumer.stop()
    return _read(record.value)


def aiokafka(access: dict[str, str]) -> str:
    """Run aiokafka, which logs what is wrong with a certificate."""
    return asyncio.run(_aiokafka(access))


def _login(access: dict[str, str]) -> dict[str, Any]:
    """Return the options of kafka-python and aiokafka."""
    if not access["mechanism"]:
        return {"security_protocol": "SSL"}
    return {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": access["mechanism"],
        "sasl_plain_username": access["user"],
        "sasl_plain_password": access["password"],
    }


def _files(access: dict[str, str], directory: Path) -> dict[str, str]:
    """Write the PEM texts; return the paths."""
    found = {}
    for name in ("authority", "certificate", "key"):
        path = directory / f"{name}.pem"
        path.write_text(access[name])
        found[name] = str(path)
    return found


def _read(value: bytes) -> str:
    return f"read {len(value)}"


PROGRAMS = {"confluent_kafka": confluent_kafka, "kafka": kafka_python, "aiokafka": aiokafka}
"""The programs by the modules that they need."""

if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    print(PROGRAMS[sys.argv[1]](json.loads(sys.argv[2])))  # noqa: T201
