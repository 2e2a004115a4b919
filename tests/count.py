"""Prints how many tests passed and failed, "N passed, N failed", from the results of one ctest run.

An entry of ctest that left its own results counts by its cases, any other as one. An entry that
failed although no case of it did (a crash, a time-out) counts as one failure.

Usage: count.py RESULTS_DIR     (ctest.xml, and NAME.xml for the entries that left cases)
"""

import sys
from pathlib import Path
from xml.etree import ElementTree


def cases(results: Path) -> tuple[int, int, int]:
    """Returns the numbers of passed, failed and skipped cases in a JUnit file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(results).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count(folder: Path) -> tuple[int, int, int]:
    """Returns the numbers of passed, failed and skipped tests of the run."""
    total = [0, 0, 0]
    for entry in ElementTree.parse(folder / "ctest.xml").iter("testcase"):
        entry_passed = entry.get("status") == "run"
        own = folder / f"{entry.get('name')}.xml"
        try:
            passed, failed, skipped = cases(own)
        except (FileNotFoundError, ElementTree.ParseError):  # none of its own, or it died writing
            passed, failed, skipped = int(entry_passed), 0, 0
        if not entry_passed and failed == 0:
            failed = 1
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
    return tuple(total)


if __name__ == "__main__":
    total_passed, total_failed, total_skipped = count(Path(sys.argv[1]))
    if total_skipped:
        print(f"skipped: {total_skipped}")
    print(f"{total_passed} passed, {total_failed} failed")
    sys.exit(total_failed > 0 or total_passed == 0)
