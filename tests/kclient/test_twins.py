"""Which twins run: the same in all packages, and never a silent replacement of what was asked for."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from kclient import _twins
from kclient._twins import COMPILED, IMPLEMENTATION, choose

PACKAGES = """
from kclient.consumer.iteration.implementation import RecordIterator
from kclient.net.implementation import Poller
from kclient.producer.implementation import Accumulator, RecordFuture
from kclient.records import BatchBuilder, IMPLEMENTATION
print(IMPLEMENTATION, *(kind.__module__ for kind in (RecordIterator, Poller, Accumulator, RecordFuture, BatchBuilder)))
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "KCLIENT_REQUIRE_COMPILED": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_extension_module_is_named() -> None:
    root = Path(_twins.__file__).parent
    # An installed package has no sources, only what was built of them.
    extensions = {
        ".".join(path.relative_to(root.parent).parts).removesuffix(suffix)
        for suffix in (".pyx", sysconfig.get_config_var("EXT_SUFFIX"))
        for path in root.rglob(f"_*{suffix}")
    }
    assert extensions == set(COMPILED)


@pytest.mark.parametrize(
    ("built", "pure", "required", "expected"),
    [
        pytest.param(COMPILED, False, False, "compiled", id="all-built"),
        pytest.param(COMPILED, False, True, "compiled", id="all-built-and-required"),
        pytest.param(COMPILED, True, False, "pure", id="pure-asked-for"),
        pytest.param(COMPILED, True, True, "pure", id="pure-wins"),
        pytest.param((), False, False, "pure", id="none-built"),
    ],
)
def test_twins_are_chosen_for_all_packages(built: tuple[str, ...], pure: bool, required: bool, expected: str) -> None:
    assert choose(built, pure=pure, required=required) == expected


def test_partial_build_falls_back_to_the_pure_twins_with_a_warning() -> None:
    with pytest.warns(RuntimeWarning, match=r"no compiled kclient\.producer\._hot, so the pure twins are used"):
        assert (
            choose([name for name in COMPILED if name != "kclient.producer._hot"], pure=False, required=False) == "pure"
        )


@pytest.mark.parametrize("built", [(), COMPILED[1:]], ids=["none-built", "one-missing"])
def test_missing_modules_are_an_error_where_they_are_required(built: tuple[str, ...]) -> None:
    with pytest.raises(ImportError, match=r"_iterator.*KCLIENT_REQUIRE_COMPILED is set; install kclient again"):
        choose(built, pure=False, required=True)


def test_packages_do_not_mix_twins() -> None:
    pure = run(PACKAGES, KCLIENT_PURE="1").stdout.split()
    assert pure[0] == "pure"
    assert not set(pure[1:]) & set(COMPILED)
    default = run(PACKAGES, KCLIENT_PURE="0").stdout.split()
    if IMPLEMENTATION == "compiled":
        assert default[0] == "compiled"
        assert set(default[1:]) <= set(COMPILED)


@pytest.mark.skipif(IMPLEMENTATION == "pure", reason="the compiled twins are not in use")
def test_compiled_module_that_cannot_be_imported_is_an_error() -> None:
    broken = "import sys; sys.modules['kclient.producer._hot'] = None\n" + PACKAGES
    done = run(broken, KCLIENT_PURE="0")
    assert done.returncode != 0
    assert "ImportError: kclient.producer._hot was built and cannot be imported" in done.stderr
