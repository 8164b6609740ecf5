"""The loop that reads, computes and writes, the results of each record exactly once.

`kclient.transform` is this module, and a function of that name is in it: `from kclient.transform import transform`.
`Transform` is the same as an object, which can be stopped and measured; `AsyncTransform` and `transform_async` are
their twins for asyncio and trio. It stands on the public names of consumer and producer alone.

Leaves out transactions themselves (`kclient.producer`), and state: what a function remembers between records is its
own.
"""

from __future__ import annotations

from kclient.transform.faces import AsyncTransform, Transform, transform, transform_async
from kclient.transform.functions import AsyncFunction, AsyncOnError, Function, OnError, Output

__all__ = [
    "AsyncFunction",
    "AsyncOnError",
    "AsyncTransform",
    "Function",
    "OnError",
    "Output",
    "Transform",
    "transform",
    "transform_async",
]
