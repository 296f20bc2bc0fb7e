# SPDX-License-Identifier: Apache-2.0
"""Small things in every source file: licence line, no left-overs, blanks, no paths of somebody's machine, format."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DIRS = ("src", "include", "bench", "examples", "tests", "scripts", "cmake", "docs", ".ci")
SKIP = ("tests/data", "tests/fuzz/corpus")
LICENSED = (".c", ".h", ".in", ".py", ".sh")
NO_TABS = (".py", ".cmake", ".md", ".txt", ".scd")
TEXT = LICENSED + NO_TABS + (".map", ".json", ".yml", ".inc", "")
CLANG_FORMAT_MAJOR = 14

# Written so that this file does not complain about itself.
LEFT_OVERS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")
IF_ZERO = re.compile(r"^\s*#\s*if\s+0\b", re.M)
MACHINES = ["home", "root", "work", "Users"]
PATHS = re.compile(r"(?<![\w.$})*\]/-])/(?:" + "|".join(MACHINES) + r")(?:/|\b(?![\w/.-]))")


def sources(root):
    for top in DIRS:
        for path in sorted((root / top).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and path.suffix in TEXT and not name.startswith(SKIP) and "__pycache__" not in name:
                yield path, name
    for path in sorted(list(root.glob("*.md")) + list(root.glob("CMake*"))):
        yield path, path.name


def check_file(path, name):
    data = path.read_bytes()
    if b"\0" in data:
        return
    text = data.decode("utf-8", errors="replace")
    lines = text.split("\n")
    if path.suffix in LICENSED and not name.endswith((".pc.in", ".cmake.in")):
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:3]):
            yield f"{name}:1: no SPDX-License-Identifier in the first lines"
    if text and not text.endswith("\n"):
        yield f"{name}:{len(lines)}: no newline at the end"
    for n, line in enumerate(lines, 1):
        if line != line.rstrip() and not path.suffix == ".scd":
            yield f"{name}:{n}: blanks at the end of the line"
        if "\t" in line and path.suffix in NO_TABS and path.suffix != ".scd":
            yield f"{name}:{n}: a tab"
        if LEFT_OVERS.search(line):
            yield f"{name}:{n}: unfinished: {line.strip()}"
        if IF_ZERO.match(line):
            yield f"{name}:{n}: code that is switched off"
        if PATHS.search(line):
            yield f"{name}:{n}: a path of somebody's machine: {line.strip()}"


def check(root):
    return [what for path, name in sources(root) for what in check_file(path, name)]


def check_format(root):
    tool = shutil.which(f"clang-format-{CLANG_FORMAT_MAJOR}") or shutil.which("clang-format")
    version = subprocess.run([tool, "--version"], capture_output=True, text=True).stdout if tool else ""
    if f"version {CLANG_FORMAT_MAJOR}." not in version:
        print(f"hygiene: the format is not checked: clang-format {CLANG_FORMAT_MAJOR} is not here")
        return []
    files = [str(p) for p, name in sources(root) if p.suffix in (".c", ".h")]
    run = subprocess.run([tool, "--dry-run", "-Werror", "--style=file", *files], capture_output=True, text=True,
                         cwd=root)
    first = {}
    for line in run.stderr.splitlines():
        if ": error:" in line:
            name, at = line.replace(str(root) + "/", "").split(":")[:2]
            first.setdefault(name, at)
    return [f"{name}:{at}: not as clang-format -i makes it" for name, at in first.items()]


def self_test():
    spdx = "/* SPDX-License-Identifier: Apache-2.0 */\n"
    machine = "/" + MACHINES[0] + "/someone/src"
    files = {
        "src/a/good.c": spdx + "\tint a; /* see a/" + MACHINES[0] + "/b */\n",
        "src/a/licence.c": "int a;\n",
        "src/a/blank.c": spdx + "int a; \n",
        "src/a/left.c": spdx + "/* TO" + "DO */\n",
        "src/a/off.c": spdx + "#if 0\n#endif\n",
        "src/a/end.c": spdx + "int a;",
        "tests/x.sh": "#!/bin/bash\n# SPDX-License-Identifier: Apache-2.0\ncd " + machine + "\n",
        "cmake/tab.cmake": "\tset(a b)\n",
    }
    expected = ["cmake/tab.cmake:1", "src/a/blank.c:2", "src/a/end.c:2", "src/a/left.c:2", "src/a/licence.c:1",
                "src/a/off.c:2", "tests/x.sh:3"]
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            p = pathlib.Path(d, name)
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
        got = sorted(":".join(b.split(":")[:2]) for b in check(pathlib.Path(d)))
    if got != expected:
        sys.exit(f"hygiene.py: self-test: expected {expected}, got {got}")


if __name__ == "__main__":
    self_test()
    top = pathlib.Path(sys.argv[1]).resolve()
    found = check(top) + check_format(top)
    print("\n".join(found) or "hygiene: clean")
    sys.exit(1 if found else 0)
