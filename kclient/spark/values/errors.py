"""Errors of values, schemas, and the registry."""

from __future__ import annotations

from kclient.spark.errors import SourceError


class ValueSchemaError(SourceError, name="VALUE_SCHEMA"):
    """A value does not fit its schema, a schema has no type in Spark, or the registry cannot return it."""
