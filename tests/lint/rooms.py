# SPDX-License-Identifier: Apache-2.0
"""The rooms of src/ and their one-way edges: every #include is checked against the table in cmake/PtmRoom.cmake.

A third-party header may be named only in .c files of the room that owns the library, the program (cli) only uses the
public headers, and the public headers only each other and the C library.
"""
import pathlib
import re
import sys
import tempfile

# Library -> what its headers look like, and the rooms that own it.
THIRD_PARTY = {
    "libipt": (r"(intel-pt|pt_\w+|libipt\w*)\.h", {"flow"}),
    "capstone": (r"capstone(/.*)?\.h|capstone/.*", {"sink"}),
    "Zydis": (r"(Zydis|Zycore)/.*", {"image"}),
    "elfutils": (r"(libelf|gelf|libelf/.*|elfutils/.*|dwarf|libdw)\.h|elfutils/.*", {"image"}),
    "hwloc": (r"hwloc(/.*)?\.h|hwloc/.*", {"os"}),
    "zstd": (r"zstd\w*\.h|zdict\.h", {"os"}),
    "json-c": (r"json-c/.*|json\.h|json_\w+\.h", {"os"}),
    "xxhash": (r"xxhash\.h|xxh3\.h", {"os", "image", "flow"}),
    "liburcu": (r"urcu[\w-]*\.h|urcu/.*", {"os"}),
}
LIBC = set("""
argp argz alloca arpa/inet assert byteswap cpuid ctype dirent dlfcn elf endian err errno fcntl float fnmatch ftw fts getopt
glob immintrin inttypes limits link locale malloc math poll pthread sched search semaphore setjmp signal spawn stdalign
stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string strings sysexits syscall termios threads time
uchar unistd wchar x86intrin emmintrin smmintrin tmmintrin nmmintrin
""".split())
LIBC_DIRS = ("sys/", "linux/", "asm/", "asm-generic/", "sanitizer/")
GENERATED = {"ptm_libraries.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def edges(root):
    table = {}
    text = (root / "cmake/PtmRoom.cmake").read_text()
    for m in re.finditer(r"^set\(PTM_EDGES_(\w+)\s+([^)]*)\)", text, re.M):
        table[m.group(1)] = set(m.group(2).replace('"', "").split())
    return table


def includes(path):
    for n, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        m = INCLUDE.match(line)
        if m:
            yield n, m.group(1), m.group(2)


def check_angle(name, room, is_source):
    for lib, (pattern, owners) in THIRD_PARTY.items():
        if re.fullmatch(pattern, name):
            if room not in owners:
                return f"<{name}> belongs to {lib}, which only room {' and '.join(sorted(owners))} may use"
            return None if is_source else f"<{name}>: no type of {lib} may stand in a header"
    if (name.endswith(".h") and name[:-2] in LIBC) or name.startswith(LIBC_DIRS):
        return None
    return f"<{name}> is neither of the C library nor of a library in the table of tests/lint/rooms.py"


def check_quote(name, path, room, table):
    if name in GENERATED and room != "cli":
        return None
    if name.startswith("ptmill/"):
        return None
    if "/" not in name:
        return None if (path.parent / name).exists() else f'"{name}" is not a file of room {room}'
    other = name.split("/")[0]
    if room == "cli":
        return f'"{name}": the program uses the public headers ptmill/*.h only'
    if other not in table:
        return f'"{name}": there is no room {other}'
    if other != room and other not in table[room]:
        return f'"{name}": room {room} may not depend on room {other}'
    return None


def check(root):
    table = edges(root)
    bad = []
    if not table:
        bad.append("cmake/PtmRoom.cmake: no table of edges")
    for path in sorted((root / "src").glob("*/*.[ch]")):
        room = path.parent.name
        if room != "cli" and room not in table:
            bad.append(f"{path.relative_to(root)}: room {room} is not in cmake/PtmRoom.cmake")
            continue
        for n, kind, name in includes(path):
            what = (check_angle(name, room, path.suffix == ".c") if kind == "<"
                    else check_quote(name, path, room, table))
            if what:
                bad.append(f"{path.relative_to(root)}:{n}: {what}")
    for path in sorted((root / "include").rglob("*.h")):
        for n, kind, name in includes(path):
            ok = (check_angle(name, "", False) is None if kind == "<"
                  else "/" not in name or name.startswith("ptmill/"))
            if not ok:
                bad.append(f"{path.relative_to(root)}:{n}: a public header may not include {name}")
    return bad


def self_test():
    """Each rule must be able to complain, and the good file must pass."""
    files = {
        "cmake/PtmRoom.cmake": 'set(PTM_EDGES_base "")\nset(PTM_EDGES_os base)\nset(PTM_EDGES_flow os base)\n',
        "src/base/good.h": "#include <stdint.h>\n",
        "src/os/good.c": '#include "base/good.h"\n#include <hwloc.h>\n#include "ptmill/x.h"\n',
        "src/base/up.c": '#include "os/good.h"\n',
        "src/os/lib.h": "#include <zstd.h>\n",
        "src/flow/lib.c": "#include <capstone/capstone.h>\n#include <intel-pt.h>\n",
        "src/cli/main.c": '#include "base/good.h"\n#include "ptmill/x.h"\n',
        "src/os/what.c": "#include <curl/curl.h>\n",
        "src/attic/a.c": "\n",
        "include/ptmill/x.h": '#include "base/good.h"\n',
    }
    expected = ["include/ptmill/x.h:1", "src/attic/a.c", "src/base/up.c:1", "src/cli/main.c:1", "src/flow/lib.c:1",
                "src/os/lib.h:1", "src/os/what.c:1"]
    with tempfile.TemporaryDirectory() as d:
        for name, text in files.items():
            p = pathlib.Path(d, name)
            p.parent.mkdir(parents=True, exist_ok=True)
            p.write_text(text)
        got = sorted(re.match(r"[^:]+(:\d+)?", b).group(0) for b in check(pathlib.Path(d)))
    if got != expected:
        sys.exit(f"rooms.py: self-test: expected {expected}, got {got}")


if __name__ == "__main__":
    self_test()
    found = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) or "rooms: every #include is an edge of the table")
    sys.exit(1 if found else 0)
