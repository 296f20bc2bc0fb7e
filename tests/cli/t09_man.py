# SPDX-License-Identifier: Apache-2.0
"""Every option in `ptmill COMMAND --help` is in its manual page, and the other way round."""
import os
import pathlib
import re
import subprocess
import sys

ptmill = os.environ["PTMILL"]
docs = pathlib.Path(os.environ["SRC"], "docs")


def output(*args):
    return subprocess.run([ptmill, *args], capture_output=True, text=True, check=True).stdout


def options_of_help(text):
    found = set()
    for line in text.splitlines():
        m = re.match(r"\s+(?:(-\S), )?(--[a-z0-9][\w.-]*)", line)
        if m:
            found.update(o for o in m.groups() if o)
    return found


def options_of_page(text):
    # Options stand in bold at the beginning of a paragraph: "*-o* _FILE_, *--output*=_FILE_".
    body = text.split("# OPTIONS", 1)[1].split("\n# ", 1)[0]
    lines = [line for line in body.splitlines() if line.startswith("*-")]
    return {o.replace("\\", "") for line in lines for o in re.findall(r"\*(-[^*\s]+)\*", line)}


def compare(name, of_help, of_page):
    bad = [f"{name}: {o} is in --help but not in the manual page" for o in sorted(of_help - of_page)]
    bad += [f"{name}: {o} is in the manual page but not in --help" for o in sorted(of_page - of_help)]
    return bad


# The comparison must be able to fail.
assert compare("x", {"--a", "--b"}, {"--b", "--c"}) != []
assert options_of_help("  -o, --output=FILE   Write\n      --cpuid-0x15.eax=N  The\n") == {
    "-o", "--output", "--cpuid-0x15.eax"}
assert options_of_page("# OPTIONS\n\n*-o* _F_, *--output*=_F_\n\tAs *--no*.\n\n# X\n*--y*\n") == {"-o", "--output"}

commands = re.findall(r"^  (\w+) ", output("--help"), re.M)
problems = [] if len(commands) >= 6 else [f"only {len(commands)} commands in --help"]
top = (docs / "ptmill.1.scd").read_text()
for command in commands:
    page = docs / f"ptmill-{command}.1.scd"
    if not page.exists():
        problems.append(f"{command}: there is no {page.name}")
        continue
    if f"*{command}*" not in top or f"*ptmill-{command}*(1)" not in top:
        problems.append(f"{command}: ptmill.1.scd does not name it")
    problems += compare(command, options_of_help(output(command, "--help")), options_of_page(page.read_text()))
print("\n".join(problems) or f"{len(commands)} commands: --help and manual pages agree")
sys.exit(1 if problems else 0)
