"""`python -m kclient`, the same as the `kclient` command."""

from __future__ import annotations

from kclient.cli.main import main

if __name__ == "__main__":
    main()
