#!/usr/bin/env python3
"""Prints what took longest to compile in a build folder of Ninja.

    scripts/print_build_times.py BUILD_DIR [--count N]

Files: seconds from .ninja_log, which other jobs at the same time lengthen. Headers and templates: where the files were
compiled by clang with -ftime-trace (cmake -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_FLAGS=-ftime-trace), seconds of all
files together from the traces beside them, each with what it includes.
"""
import argparse
import collections
import json
import pathlib
import re
import sys


def file_seconds(log):
    """Of the last time that each object was made."""
    seconds = {}
    for line in log.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) >= 4 and re.search(r"\.(o|gch)$", fields[3]):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def trace_seconds(folder):
    headers, templates = collections.Counter(), collections.Counter()
    for path in folder.rglob("*.json"):
        if not path.name.endswith((".cc.json", ".cxx.json")):
            continue
        for event in json.loads(path.read_text())["traceEvents"]:
            if event.get("ph") != "X" or "detail" not in event.get("args", {}):
                continue
            detail = event["args"]["detail"]
            if event["name"] == "Source" and not detail.endswith((".cc", ".cxx")):
                headers[detail] += event["dur"] / 1e6
            elif event["name"].startswith("Instantiate"):
                templates[re.sub(r"<.*", "", detail)] += event["dur"] / 1e6
    return headers, templates


def print_table(title, seconds, count):
    print(f"{title}: {sum(seconds.values()):.0f} s in {len(seconds)}")
    for name, value in sorted(seconds.items(), key=lambda item: -item[1])[:count]:
        print(f"{value:8.1f}  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="BUILD_DIR")
    parser.add_argument("--count", type=int, default=25, help="rows of each table (25)")
    arguments = parser.parse_args()
    log = arguments.folder / ".ninja_log"
    if not log.exists():
        sys.exit(f"print_build_times.py: {log}: no such file, expected a folder that Ninja has built in")
    print_table("files", file_seconds(log), arguments.count)
    headers, templates = trace_seconds(arguments.folder)
    if not headers:
        print("headers: no traces; compile with clang and -ftime-trace (see --help)")
        return
    print_table("headers", headers, arguments.count)
    print_table("templates", templates, arguments.count)


if __name__ == "__main__":
    main()
