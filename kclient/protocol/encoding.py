"""Compiles the encoder of a message at a version.

The result appends bytes to a list; neighbouring fields of fixed width are packed in one go. A value
that the version cannot carry is an error unless its field is declared ignorable, as in the Java client.
"""

from __future__ import annotations

import struct

from kclient.protocol import wire
from kclient.protocol.emitter import SHORT_ARRAY, Emitter, short_arrays
from kclient.protocol.fields import FIXED_FORMATS, Field, Type, fields_of
from kclient.protocol.schema import ZERO_UUID, Encoder, Struct


def compile_encoder(cls: type[Struct], version: int, *, is_flexible: bool) -> Encoder:
    """Compile the encoder of a message at a version, which may have compact lengths and tagged fields."""
    return _Compiler(cls, version, is_flexible).compile()


class _Compiler:
    def __init__(self, cls: type[Struct], version: int, is_flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = is_flexible
        self.code = Emitter(
            uvarint=wire.uvarint,
            ONE_BYTE=wire.ONE_BYTE,
            write_tags=wire.write_tags,
            null=wire.null,
            too_long=wire.too_long,
            absent=wire.absent,
            ZERO_UUID=ZERO_UUID,
            pack=struct.pack,
        )
        self.run: list[tuple[str, str]] = []  # fixed-width fields not packed yet: format, expression
        self.write = "write"

    def compile(self) -> Encoder:
        self.code.line("write = out.append")
        self.struct(self.cls, "m", "")
        self.flush()
        return self.code.function("def encode(m, out):", f"encode {self.cls.__name__} v{self.version}")

    def flush(self) -> None:
        """Pack the collected fixed-width fields."""
        if self.run:
            pack, _ = self.code.fixed("pack", "".join(kind for kind, _ in self.run))
            self.code.line(f"{self.write}({pack}({', '.join(value for _, value in self.run)}))")
            self.run = []

    def length(self, old_format: str, value: str, flexible: bool) -> None:
        """Write a length or count that is not null."""
        if not flexible:
            self.run.append((old_format, value))
            self.flush()
            return
        size = self.code.variable("n")
        self.flush()
        self.code.line(f"{size} = {value} + 1")
        self.code.line(f"{self.write}(ONE_BYTE[{size}] if {size} < 128 else uvarint({size}))")

    def null(self, old_format: str, flexible: bool) -> None:
        constant = b"\0" if flexible else {"h": b"\xff\xff", "i": b"\xff\xff\xff\xff"}[old_format]
        self.code.line(f"{self.write}({constant!r})")

    def struct(self, cls: type[Struct], source: str, path: str) -> None:
        tagged: list[Field] = []
        for field in fields_of(cls):
            value = f"{source}.{field.name}"
            if self.version not in field.versions:
                if not field.ignorable:
                    self.refuse(field, value, path)
            elif field.is_tagged(self.version):
                tagged.append(field)
            else:
                self.field(field, value, f"{path}{field.name}")
        unknown = f"{source}.unknown_tagged_fields"
        if not self.flexible:
            with self.code.block(f"if {unknown}:"):
                self.code.line(f"raise absent({path + 'unknown_tagged_fields'!r}, {self.version})")
        elif tagged:
            self.tags(tagged, source, unknown, path)
        else:
            self.flush()
            self.code.line(f"{self.write}(write_tags((), {unknown}) if {unknown} else b'\\0')")

    def differs(self, field: Field, value: str) -> str:
        """Return a condition: the value is not the field's default."""
        if field.default is None:
            return f"{value} is not None"
        if isinstance(field.default, bool | int | float | str | bytes):
            return f"{value} != {field.default!r}"
        if isinstance(field.default, list):
            return f"{value} != []"
        if field.default == ZERO_UUID:
            return f"{value} != ZERO_UUID"
        return f"{value} != {self.code.bind('D', field.default)}"

    def refuse(self, field: Field, value: str, path: str) -> None:
        with self.code.block(f"if {self.differs(field, value)}:"):
            self.code.line(f"raise absent({path + field.name!r}, {self.version})")

    def field(self, field: Field, value: str, path: str) -> None:
        flexible = self.flexible and not field.not_flexible
        can_be_null = self.version in field.nullable
        if field.type.struct is not None and can_be_null:
            self.flush()
            # The presence of a tagged field is a varint, of any other a signed byte.
            null = b"\0" if field.is_tagged(self.version) else b"\xff"
            with self.code.block(f"if {value} is None:"):
                self.code.line(f"{self.write}({null!r})")
            with self.code.block("else:"):
                self.code.line(f"{self.write}(b'\\x01')")
                self.struct(field.type.struct, value, path + ".")
                self.flush()
            return
        self.value(field.type, value, path, flexible, can_be_null)

    def value(self, kind: Type, value: str, path: str, flexible: bool, can_be_null: bool) -> None:
        if kind.name in FIXED_FORMATS:
            self.run.append((FIXED_FORMATS[kind.name], f"{value}.bytes" if kind.name == "uuid" else value))
            return
        if kind.struct is not None:
            self.struct(kind.struct, value, path + ".")
            return
        self.flush()
        old_format = "h" if kind.name == "string" else "i"
        local = self.code.variable("v")
        self.code.line(f"{local} = {value}")
        if can_be_null:
            with self.code.block(f"if {local} is None:"):
                self.null(old_format, flexible)
            with self.code.block("else:"):
                self.body(kind, local, old_format, path, flexible)
        else:
            with self.code.block(f"if {local} is None:"):
                self.code.line(f"raise null({path!r})")
            self.body(kind, local, old_format, path, flexible)

    def body(self, kind: Type, value: str, old_format: str, path: str, flexible: bool) -> None:
        """Write a length and what follows it."""
        if kind.name == "string":
            self.code.line(f"{value} = {value}.encode()")
            with self.code.block(f"if len({value}) > 32767:"):
                self.code.line(f"raise too_long({path!r}, len({value}))")
        self.length(old_format, f"len({value})", flexible)
        if kind.element is None:
            self.code.line(f"{self.write}({value})")
        elif kind.element.name in FIXED_FORMATS and kind.element.name != "uuid":
            element = FIXED_FORMATS[kind.element.name]
            short = self.code.bind("short", short_arrays("pack", element))
            with self.code.block(f"if len({value}) < {SHORT_ARRAY}:"):
                self.code.line(f"{self.write}({short}[len({value})](*{value}))")
            with self.code.block("else:"):
                self.code.line(f"{self.write}(pack(f'>{{len({value})}}{element}', *{value}))")
        else:
            item = self.code.variable("m")
            with self.code.block(f"for {item} in {value}:"):
                self.value(kind.element, item, path, flexible, can_be_null=False)
                self.flush()

    def tags(self, tagged: list[Field], source: str, unknown: str, path: str) -> None:
        """Write the tagged fields of a struct: those that are not at their defaults."""
        self.flush()
        found = self.code.variable("found")
        self.code.line(f"{found} = []")
        outer = self.write
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            value = f"{source}.{field.name}"
            with self.code.block(f"if {self.differs(field, value)}:"):
                inner = self.code.variable("out")
                self.write = self.code.variable("write")
                self.code.line(f"{inner} = []")
                self.code.line(f"{self.write} = {inner}.append")
                self.field(field, value, f"{path}{field.name}")
                self.flush()
                self.code.line(f"{found}.append(({field.tag}, b''.join({inner})))")
        self.write = outer
        self.code.line(f"{self.write}(write_tags({found}, {unknown}) if {found} or {unknown} else b'\\0')")
