"""The consume-transform-produce loop, which writes the results of each record exactly once.

`kclient.transform` is this module, and a function of that name is in it: `from kclient.transform import transform`.
`Transform` is the same as an object, which can be stopped and measured; `AsyncTransform` and `transform_async` are
their twins for asyncio and trio. It uses only the public API of consumer and producer.

Not implemented: state that a function keeps between records. Elsewhere: transactions (`kclient.producer`).
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
