# SPDX-License-Identifier: Apache-2.0
"""Make one CTest directory of the tests of several build trees: merge-tests.py OUT BUILD...

CTest keeps the properties of tests by name, so trees with the same tests cannot simply be listed side by side: each test
gets the name of its tree in front.
"""
import json
import pathlib
import subprocess
import sys

# Properties whose values are names of tests or fixtures, which are the tree's own.
NAMES = {"DEPENDS", "FIXTURES_SETUP", "FIXTURES_CLEANUP", "FIXTURES_REQUIRED"}


def quote(text):
    n = 0
    while f"]{'=' * n}]" in text or text.endswith("]" + "=" * n):
        n += 1
    # A newline behind the opening bracket is dropped, so one is always put there.
    return f"[{'=' * n}[\n{text}]{'=' * n}]"


def tests_of(build):
    shown = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], check=True, capture_output=True)
    return json.loads(shown.stdout)["tests"]


def write_tests(out, build):
    tests = tests_of(build)
    if not tests:
        sys.exit(f"merge-tests.py: {build} has no tests")
    for test in tests:
        name = f"{build.name}.{test['name']}"
        if not test.get("command"):
            sys.exit(f"merge-tests.py: {name} has no command: is it built?")
        out.write(f"add_test({quote(name)} {' '.join(quote(arg) for arg in test['command'])})\n")
        for prop in test.get("properties", []):
            value = prop["value"]
            if prop["name"] in NAMES:
                value = [f"{build.name}.{v}" for v in value]
            if isinstance(value, list):
                value = ";".join(str(v) for v in value)
            elif isinstance(value, bool):
                value = "TRUE" if value else "FALSE"
            out.write(f"set_tests_properties({quote(name)} PROPERTIES {prop['name']} {quote(str(value))})\n")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with open(target / "CTestTestfile.cmake", "w", encoding="utf-8") as f:
        for arg in sys.argv[2:]:
            write_tests(f, pathlib.Path(arg).resolve())
