"""A producer and a consumer side by side in one event loop. usage: async_pair.py BOOTSTRAP TOPIC [asyncio|trio]"""

import sys

import anyio

from kclient import AsyncConsumer, AsyncProducer

COUNT = 100


async def produce(bootstrap_servers: str, topic: str) -> None:
    async with AsyncProducer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(COUNT):
            await producer.send(topic, f"event {number}".encode())  # waits for memory; `await` the result for delivery


async def consume(bootstrap_servers: str, topic: str) -> None:
    async with AsyncConsumer(topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
        seen = 0
        async for record in consumer:
            seen += 1
            if seen == COUNT:
                print(f"{seen} events, the last one: {record.value.decode()}")
                return


async def main(bootstrap_servers: str, topic: str) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(produce, bootstrap_servers, topic)
        tasks.start_soon(consume, bootstrap_servers, topic)


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    servers, name, *backend = sys.argv[1:]
    anyio.run(main, servers, name, backend=backend[0] if backend else "asyncio")
