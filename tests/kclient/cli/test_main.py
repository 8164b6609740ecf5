"""How the command line ends when it does not even begin."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

import pytest

from kclient.cli.main import main


class Interrupted:
    """Ctrl-C while a module is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name == "kclient.cli.commands":
            raise KeyboardInterrupt
        return None


def test_ctrl_c_while_the_commands_are_imported_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kclient.cli.commands", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted(), *sys.meta_path])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
