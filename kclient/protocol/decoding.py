"""Compiles the decoder of a message at a version.

The result is one function over a buffer: neighbouring fields of fixed width (the first byte of a length that follows
included) are unpacked in one go, nested structs become nested loops. Before anything is allocated for a length or
count, it is compared with the bytes that are left; every loop consumes bytes, so that the time taken and the memory
used are proportional to the input.
"""

from __future__ import annotations

import struct

from kclient.protocol import wire
from kclient.protocol.emitter import SHORT_ARRAY, Emitter, short_arrays
from kclient.protocol.fields import FIXED_FORMATS, Field, Type, fields_of, min_size
from kclient.protocol.schema import ZERO_UUID, Decoder, Struct

MAX_EMPTY_ELEMENTS = 65536
"""The limit of elements without bytes, which cannot be checked against the remaining bytes."""


def compile_decoder(cls: type[Struct], version: int, *, is_flexible: bool) -> Decoder:
    """Compile the decoder of a message at a version, which may have compact lengths and tagged fields."""
    return _Compiler(cls, version, is_flexible).compile()


class _Compiler:
    def __init__(self, cls: type[Struct], version: int, is_flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = is_flexible
        self.code = Emitter(
            read_uvarint=wire.read_uvarint,
            read_uuid=wire.read_uuid,
            read_tags=wire.read_tags,
            short=wire.short,
            null=wire.null,
            too_many=wire.too_many,
            too_long=wire.too_long,
            bad_tag=wire.bad_tag,
            ZERO_UUID=ZERO_UUID,
            unpack_from=struct.unpack_from,
        )
        self.run: list[tuple[str, str]] = []  # fixed-width fields not unpacked yet: format, variable

    def compile(self) -> Decoder:
        self.code.line("p = 0")
        result = self.struct(self.cls, "")
        self.code.line(f"return {result}, p")
        return self.code.function("def decode(buf, end):", f"decode {self.cls.__name__} v{self.version}")

    def flush(self) -> None:
        """Unpack the collected fixed-width fields."""
        if not self.run:
            return
        formats = "".join(kind for kind, _ in self.run)
        targets = [variable for _, variable in self.run]
        self.run = []
        if formats == "B":
            self.code.line(f"{targets[0]} = buf[p]")
            self.code.line("p += 1")
            return
        unpack, size = self.code.fixed("unpack_from", formats)
        self.code.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(buf, p)")
        self.code.line(f"p += {size}")
        for kind, target in zip(formats.replace("16s", "u"), targets):
            if kind == "u":
                self.code.line(f"{target} = read_uuid({target})")

    def fixed(self, kind: str, hint: str) -> str:
        variable = self.code.variable(hint)
        self.run.append((kind, variable))
        return variable

    def length(self, old_format: str, flexible: bool) -> str:
        """Read a length or count; the variable contains it, or less than 0 for null."""
        if not flexible:
            size = self.fixed(old_format, "n")
            self.flush()
            return size
        size = self.uvarint("n")
        self.code.line(f"{size} -= 1")
        return size

    def uvarint(self, hint: str) -> str:
        variable = self.fixed("B", hint)
        self.flush()
        with self.code.block(f"if {variable} > 127:"):
            self.code.line(f"{variable}, p = read_uvarint(buf, p - 1)")
        return variable

    def struct(self, cls: type[Struct], path: str) -> str:
        """Read a struct; return the expression or variable with it."""
        values: dict[str, str] = {}
        tagged: list[Field] = []
        for field in fields_of(cls):
            if self.version not in field.versions:
                values[field.name] = self.default(field)
            elif field.is_tagged(self.version):
                variable = self.code.variable("v")
                tagged.append(field)
                values[field.name] = variable
            else:
                values[field.name] = self.field(field, f"{path}{field.name}")
        name = self.code.bind("T", cls)
        tags = self.tags(tagged, values, path) if self.flexible else None
        self.flush()
        expression = f"{name}({', '.join(values.values())})"
        if tags is None:
            return expression
        made = self.code.variable("o")
        self.code.line(f"{made} = {expression}")
        with self.code.block(f"if {tags}:"):
            self.code.line(f"{made}.unknown_tagged_fields = {tags}")
        return made

    def default(self, field: Field) -> str:
        if field.default is None or isinstance(field.default, bool | int | float | str | bytes):
            return repr(field.default)
        if isinstance(field.default, list):
            return "[]"
        if field.default == ZERO_UUID:
            return "ZERO_UUID"
        return f"{self.code.bind('T', type(field.default))}()"

    def field(self, field: Field, path: str) -> str:
        flexible = self.flexible and not field.not_flexible
        can_be_null = self.version in field.nullable or field.null_as_empty
        if field.type.struct is not None and can_be_null:
            return self.nullable_struct(field.type.struct, path, field.is_tagged(self.version))
        return self.value(field.type, path, flexible, can_be_null, null="b''" if field.null_as_empty else "None")

    def value(self, kind: Type, path: str, flexible: bool, can_be_null: bool, null: str = "None") -> str:
        if kind.name in FIXED_FORMATS:
            return self.fixed(FIXED_FORMATS[kind.name], "v")
        if kind.struct is not None:
            return self.struct(kind.struct, path + ".")
        size = self.length("h" if kind.name == "string" else "i", flexible)
        variable = self.code.variable("v")
        if can_be_null:
            with self.code.block(f"if {size} < 0:"):
                self.code.line(f"{variable} = {null}")
            with self.code.block("else:"):
                self.body(kind, variable, size, path)
        else:
            with self.code.block(f"if {size} < 0:"):
                self.code.line(f"raise null({path!r})")
            self.body(kind, variable, size, path)
        return variable

    def nullable_struct(self, cls: type[Struct], path: str, is_tagged: bool) -> str:
        # The presence of a tagged field is a varint, of any other a signed byte.
        flag = self.uvarint("n") if is_tagged else self.fixed("b", "n")
        self.flush()
        variable = self.code.variable("v")
        with self.code.block(f"if {flag} {'== 0' if is_tagged else '< 0'}:"):
            self.code.line(f"{variable} = None")
        with self.code.block("else:"):
            self.code.line(f"{variable} = {self.struct(cls, path + '.')}")
        return variable

    def body(self, kind: Type, variable: str, size: str, path: str) -> None:
        """Read what follows a length that is not null."""
        if kind.element is not None:
            self.array(kind.element, variable, size, path)
            return
        end = self.code.variable("e")
        self.code.line(f"{end} = p + {size}")
        with self.code.block(f"if {end} > end:"):
            self.code.line(f"raise short({path!r}, {size}, end - p)")
        if kind.name == "string":
            if self.flexible:
                with self.code.block(f"if {size} > 32767:"):
                    self.code.line(f"raise too_long({path!r}, {size})")
            self.code.line(f'{variable} = str(buf[p:{end}], "utf-8")')
        elif kind.name == "records":
            self.code.line(f"{variable} = memoryview(buf)[p:{end}]")
        else:
            self.code.line(f"{variable} = bytes(buf[p:{end}])")
        self.code.line(f"p = {end}")

    def array(self, element: Type, variable: str, size: str, path: str) -> None:
        least = min_size(element, self.version, self.flexible)
        if least:
            room = "end - p" if least == 1 else f"(end - p) // {least}"
            with self.code.block(f"if {size} > {room}:"):
                self.code.line(f"raise short({path!r}, {size}, end - p)")
        else:
            with self.code.block(f"if {size} > {MAX_EMPTY_ELEMENTS}:"):
                self.code.line(f"raise too_many({path!r}, {size})")
        if element.name in FIXED_FORMATS and element.name != "uuid":
            kind = FIXED_FORMATS[element.name]
            short = self.code.bind("short", short_arrays("unpack_from", kind))
            with self.code.block(f"if {size} < {SHORT_ARRAY}:"):
                self.code.line(f"{variable} = list({short}[{size}](buf, p))")
            with self.code.block("else:"):
                self.code.line(f"{variable} = list(unpack_from(f'>{{{size}}}{kind}', buf, p))")
            self.code.line(f"p += {size} * {least}")
            return
        self.code.line(f"{variable} = []")
        add = self.code.variable("add")
        self.code.line(f"{add} = {variable}.append")
        with self.code.block(f"for _ in range({size}):"):
            item = self.value(element, path, self.flexible, can_be_null=False)
            self.flush()
            self.code.line(f"{add}({item})")

    def tags(self, tagged: list[Field], values: dict[str, str], path: str) -> str:
        """Read the tagged fields of a struct; return the variable with the unknown ones."""
        count = self.fixed("B", "n")
        self.flush()
        unknown = self.code.variable("u")
        for field in tagged:
            self.code.line(f"{values[field.name]} = {self.default(field)}")
        self.code.line(f"{unknown} = ()")
        with self.code.block(f"if {count}:"):
            if tagged:
                self.known_tags(tagged, values, path, count, unknown)
            else:
                self.code.line(f"{unknown}, p = read_tags(buf, p - 1, end)")
        return unknown

    def known_tags(self, tagged: list[Field], values: dict[str, str], path: str, count: str, unknown: str) -> None:
        code = self.code
        found, end = code.variable("found"), code.variable("e")
        with code.block(f"if {count} > 127:"):
            code.line(f"{count}, p = read_uvarint(buf, p - 1)")
        with code.block(f"if {count} > (end - p) // 2:"):
            code.line(f"raise short('tagged fields', {count}, end - p)")
        code.line(f"{found} = {{}}")
        with code.block(f"for _ in range({count}):"):
            tag = self.uvarint("tag")
            size = self.uvarint("n")
            code.line(f"{end} = p + {size}")
            with code.block(f"if {end} > end:"):
                code.line(f"raise short({path + 'tagged field'!r}, {size}, end - p)")
            for index, field in enumerate(tagged):
                with code.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    value = self.field(field, f"{path}{field.name}")
                    self.flush()
                    code.line(f"{values[field.name]} = {value}")
            with code.block("else:"):
                code.line(f"{found}[{tag}] = bytes(buf[p:{end}])")
                code.line(f"p = {end}")
            with code.block(f"if p != {end}:"):
                code.line(f"raise bad_tag({path + 'tagged field'!r}, {size}, p - {end} + {size})")
        code.line(f"{unknown} = tuple(sorted({found}.items()))")
