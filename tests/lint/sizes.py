# SPDX-License-Identifier: Apache-2.0
"""No file over 800 lines and no function over 60, from the line of its opening brace to that of its closing one."""
import pathlib
import re
import sys
import tempfile

MAX_FILE = 800
MAX_FUNCTION = 60
DIRS = ("src", "include", "bench", "examples")

# Comments, strings, characters, and preprocessor lines with their continuations: what braces do not count in.
BLANK = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X)
DIRECTIVE = re.compile(r"^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*", re.M)


def blank(text):
    def keep_lines(m):
        return "\n" * m.group(0).count("\n") or " "

    return DIRECTIVE.sub(keep_lines, BLANK.sub(keep_lines, text))


def functions(text):
    """Yield (name, first line, lines) of each function of a C file."""
    text = blank(text)
    depth = 0
    head = ""    # what stands since the last declaration, outside all braces
    line = 1
    current = None
    transparent = []  # depths of extern "C" blocks
    for c in text:
        if c == "\n":
            line += 1
        if c == "{":
            if depth == len(transparent) and re.search(r"\bextern\s*$", head):
                transparent.append(depth)
                head = ""
            elif depth == len(transparent) and "=" not in re.sub(r"\(.*\)", "", head, flags=re.S):
                m = re.search(r"(\w+)\s*\(", head)
                if m and not re.match(r"\s*(typedef|struct\s+\w+|enum\s+\w+|union\s+\w+)\s*$", head):
                    current = (m.group(1), line)
            depth += 1
        elif c == "}":
            depth -= 1
            if transparent and depth == transparent[-1]:
                transparent.pop()
            if depth == len(transparent):
                if current:
                    yield current[0], current[1], line - current[1] + 1
                current = None
                head = ""
        elif depth == len(transparent):
            head = "" if c == ";" else head + c


def check(root):
    bad = []
    for top in DIRS:
        for path in sorted((root / top).rglob("*.[ch]")):
            text = path.read_text(errors="replace")
            name = path.relative_to(root)
            lines = text.count("\n")
            if lines > MAX_FILE:
                bad.append(f"{name}: {lines} lines, more than {MAX_FILE}")
            for func, first, n in functions(text):
                if n > MAX_FUNCTION:
                    bad.append(f"{name}:{first}: {func}() has {n} lines, more than {MAX_FUNCTION}")
    return bad


def self_test():
    body = "\tif (c == '{')\n\t\tputs(\"}\"); /* } */\n"
    files = {
        "src/a/good.c": "struct s {\n\tint a;\n};\nstatic const int t[] = {\n" + "\t1,\n" * 100 + "};\n"
                        "#define X {\n#define Y \\\n\t{\n"
                        "int f(int c)\n{\n" + body * 29 + "}\n",
        "src/a/long.c": "int g(void (*fn)(int),\n      int c)\n{\n" + body * 29 + "\n}\nint h;\n",
        "include/a/cpp.h": 'extern "C" {\nstatic inline int k(void)\n{\n' + "\tk();\n" * 59 + "}\n}\n",
        "bench/big.c": "int x;\n" * 801,
    }
    expected = ["bench/big.c", "include/a/cpp.h:3", "src/a/long.c:3"]
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            p = pathlib.Path(d, name)
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
        got = sorted(re.match(r"[^:]+(:\d+)?", b).group(0) for b in check(pathlib.Path(d)))
    names = [f[0] for f in functions(files["src/a/good.c"])]
    if got != expected or names != ["f"]:
        sys.exit(f"sizes.py: self-test: expected {expected} and ['f'], got {got} and {names}")


if __name__ == "__main__":
    self_test()
    root = pathlib.Path(sys.argv[1])
    found = check(root)
    count = sum(1 for top in DIRS for p in (root / top).rglob("*.[ch]") for _ in functions(p.read_text()))
    print("\n".join(found) or f"sizes: {count} functions, none over {MAX_FUNCTION} lines")
    sys.exit(1 if found or count == 0 else 0)
