"""The compiled part of the build; everything else is in pyproject.toml.

Every ``kclient/**/_*.pyx`` becomes an extension module. They are an optimisation: each has a pure Python twin, so a
machine without a working C compiler gets a complete, slower installation, and the log says so. With
``KCLIENT_REQUIRE_COMPILED=1``, a failed build is an error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

REQUIRED = os.environ.get("KCLIENT_REQUIRE_COMPILED", "") not in ("", "0")
COMPILE_ARGS = ["/O2"] if sys.platform == "win32" else ["-O3", "-g0"]


def extensions() -> list[Extension]:
    """Return an extension for each Cython source under kclient/."""
    sources = sorted(Path("kclient").rglob("_*.pyx"))
    declarations = [path.as_posix() for path in sorted(Path("kclient").rglob("*.px[di]"))]
    return [
        Extension(
            ".".join(source.with_suffix("").parts),
            [source.as_posix()],
            depends=declarations,
            extra_compile_args=COMPILE_ARGS,
            optional=not REQUIRED,
        )
        for source in sources
    ]


class BuildExtensions(build_ext):
    """The build_ext command: runs Cython, compiles what can be compiled, and reports the result."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extensions(self) -> None:
        try:
            from Cython.Build import cythonize
        except ImportError:
            if REQUIRED:
                raise
            self.announce_outcome(0, "Cython is not installed")
            self.extensions = []
            return
        # An error in a .pyx is a mistake in the project, not a property of the machine: it always fails.
        translated = cythonize(
            self.extensions,
            build_dir="build/cython",
            compiler_directives={"language_level": "3"},
            force=bool(self.force),
            quiet=True,
        )
        for extension, new in zip(self.extensions, translated, strict=True):
            extension.sources = new.sources
        super().build_extensions()
        built = sum(os.path.exists(self.get_ext_fullpath(extension.name)) for extension in self.extensions)
        self.announce_outcome(built, "the C compiler did not work")

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception:
            # The module of an earlier build no longer matches the source.
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise

    def announce_outcome(self, built: int, why_not: str) -> None:
        total = len(self.extensions)
        if built == total:
            self.announce(f"kclient: {built} of {total} extensions compiled", level=2)
        else:
            self.warn(f"kclient: {built} of {total} extensions compiled ({why_not}); pure Python is used instead")


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExtensions})
