"""Check the language of the project: ``python tools/check_language.py``, or with the paths to check.

Two rules of docs/style.md that a program can check:

- no phrase of `PHRASES` occurs in a source file or a page. Phrases match across line breaks and in identifiers.
- the docstring of a function begins with a verb ("Return the offset"), not with a noun ("The offset"). Properties,
  fixtures, tests and methods of a Protocol that stand for an attribute are described by a noun, so they are exempt.

Exempt are Kafka's own texts (message schemas, `KAFKAS_OWN`), and the files that list the phrases (`THIS_CHECK`).

Limitations: grammar and choice of words beyond these rules are for readers.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
CHECKED = {".py", ".pyx", ".pxd", ".pyi", ".md", ".toml"}

PHRASES = {
    r"anew|afresh": "again, from the start",
    r"whoever|whomever": "name the reader, writer, caller, member …",
    r"hear(s|d)? (of|from)": "receives, is notified, learns from the response",
    r"(is|are|was|were|be|been|being) (not )?told": "receives, is notified; the response contains",
    r"tell(s|ing)? of": "reports, names",
    r"for ever": "indefinitely, without a limit",
    r"left out|leaves? out": "Not implemented:, omits, skips",
    r"stands? still|stood still": "stalls, is paused, does not advance",
    r"while wh(ich|om)": "name the period: while the request is in flight",
    r"troubles?|troubled": "error, problem",
    r"news": "name what changed",
    r"there (is|are) (none|not)": "no …; does not exist",
    r"(that|which) (is|are) none": "is not a …",
    r"once more": "again",
    r"mend(s|ed|ing)?": "fix, repair, correct",
    r"(sees?|seen|seeing) to": "handles, ensures",
    r"found out(?! of order)": "detected, fenced",
    r"in vain": "without success",
    r"all the same|none ?the less": "nevertheless, still",
    r"(goes|go|going|went|gone) on": "continues, proceeds",
    r"lets? go of|letting go of": "releases",
    r"gives? way|giving way": "yields",
    r"so (young|old) an?|young(er|est)? (record|batch|segment|offset)s?": "recent, later, latest",
    r"for want of|lest": "because there is no …; so that … not",
    r"any more": "no longer",
    r"at hand": "current",
    r"come to nothing|comes to nothing|naught|nought": "fails, has no effect",
    r"becomes of": "happens to",
    r"heed(s|ed)?": "obey, apply",
    r"whilst|forthwith|thereby|wherein|henceforth|thereof": "while, immediately, … in plain words",
    r"for good": "permanently",
    r"as good as": "equivalent to",
    r"of its own accord": "by itself, without a request",
    r"do(es)? without": "is optional; works without",
}

KAFKAS_OWN = ("kclient/protocol/messages", "tests/data")
THIS_CHECK = ("docs/style.md", "tools/check_language.py", "tests/tools/test_check_language.py")

# A docstring that begins with one of these words describes a thing instead of what the function does.
NOT_A_VERB = re.compile(
    r"a|all|an|any|anything|as|at|both|by|each|either|eight|every|everything|for|from|how|if|in|it|its"
    r"|kafka's|many|none|nothing|of|on|one|only|that|the|these|they|this|those|three|true|two|until|up"
    r"|what|whatever|when|where|whether|which|who|whose|why|with"
)
DESCRIBED_BY_A_NOUN = re.compile(r"property|setter|fixture|overload|contextmanager|command|callback")


def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds the phrase as whole words, also across a line break inside a comment."""
    spaced = phrase.replace(" ?", r"(?: )?").replace(" ", r"(?:[ _]|\s*\n\s*(?:#:? ?|> ?)?)")
    return re.compile(rf"(?<![A-Za-z])(?:{spaced})(?![A-Za-z])", re.IGNORECASE)


PATTERNS = [(phrase_pattern(phrase), advice) for phrase, advice in PHRASES.items()]


def bad_phrases(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and message of each phrase that the style does not use."""
    for pattern, advice in PATTERNS:
        for match in pattern.finditer(text):
            found = " ".join(match[0].split())
            yield text.count("\n", 0, match.start()) + 1, f'"{found}": write {advice}'


def bad_docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and message of each function whose docstring does not begin with a verb."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if not text or any(DESCRIBED_BY_A_NOUN.search(ast.unparse(mark)) for mark in node.decorator_list):
            continue
        first = text.split()[0].strip(".,:;`*").lower()
        if NOT_A_VERB.fullmatch(first):
            yield node.lineno, f'docstring of {node.name} begins with "{first}": begin with a verb ("Return …")'


def complaints(path: Path) -> list[tuple[int, str]]:
    """Return line and message of everything to change in a file, in order."""
    text = path.read_text(encoding="utf-8")
    found = list(bad_phrases(text))
    if path.suffix == ".py" and not path.is_relative_to(PROJECT / "tests"):
        found += bad_docstrings(ast.parse(text))
    return sorted(found)


def files(named: list[str]) -> Iterator[Path]:
    """Yield the files to check: those that are named, or all that git knows."""
    listed = subprocess.run(["git", "ls-files", *named], cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    exempt = (*KAFKAS_OWN, *THIS_CHECK)
    for name in listed.splitlines():
        path = PROJECT / name
        if any(path.is_relative_to(PROJECT / folder) for folder in exempt) or not path.exists():
            continue
        if path.suffix in CHECKED:
            yield path


def main() -> int:
    """Print what has to change; return 1 if anything has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files and folders; by default all")
    parser.add_argument("--count", action="store_true", help="print the number of findings of each file")
    options = parser.parse_args()
    bad = 0
    for path in files(options.paths):
        found = complaints(path)
        bad += len(found)
        if options.count and found:
            print(f"{len(found):5} {path.relative_to(PROJECT)}")
        elif not options.count:
            for line, message in found:
                print(f"{path.relative_to(PROJECT)}:{line}: {message}")
    if bad:
        print(f"{bad} findings; docs/style.md has the rules", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
