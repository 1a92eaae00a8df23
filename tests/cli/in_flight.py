"""Compares what `pinprick calls --json` prints with what tests/targets/nested_waits.c has written.

in_flight.py FILE OUT RECORDS BEFORE AFTER: FILE is the program, OUT what it has written,
RECORDS the calls, which were looked at between the times BEFORE and AFTER (CLOCK_MONOTONIC, in
nanoseconds). The order of the records is checked, too.
"""
import collections
import json
import re
import subprocess
import sys

file, out, records, before, after = sys.argv[1:4] + [int(word) for word in sys.argv[4:6]]


def return_offsets():
    """(caller, callee) -> offsets from the caller's start to which calls of the callee return."""
    offsets = collections.defaultdict(set)
    function, begin, awaited = None, 0, None
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", file], check=True,
                          capture_output=True, text=True).stdout
    for line in text.splitlines():
        start = re.match(r"([0-9a-f]+) <(.+)>:$", line)
        if start:
            function, begin, awaited = start[2], int(start[1], 16), None
            continue
        instruction = re.match(r" *([0-9a-f]+):\s+(\S+)\s*(.*)", line)
        if not instruction:
            continue
        if awaited:
            offsets[function, awaited].add(int(instruction[1], 16) - begin)
        called = re.search(r"<(\w+)>", instruction[3]) if instruction[2].startswith("call") else None
        awaited = called[1] if called else None
    return offsets


class Expected(collections.namedtuple("Expected", "thread tid function caller latest earliest")):
    pass


def expected_calls():
    calls, depth = [], collections.Counter()
    for line in open(out):
        words = line.split()
        if words == ["released"]:
            calls, depth = [], collections.Counter()
        if len(words) != 5:
            continue
        thread, tid, function, latest, earliest = words
        caller = "descend" if depth[thread] else "work"
        depth[thread] += 1
        calls.append(Expected(f"waiter-{thread}", int(tid), function, caller, int(latest),
                              int(earliest)))
    return calls


offsets = return_offsets()
found = [json.loads(line) for line in open(records)]
assert all(one["type"] == "call" for one in found), found
ages = [one["age_ns"] for one in found]
assert ages == sorted(ages, reverse=True), "not the oldest first"
waiting = [one for one in found if one["function"] in ("hold", "descend")]
wanted = expected_calls()

# Calls of one function by one thread are told apart by their age: the outer one is older.
by_thread = collections.defaultdict(list)
for one in waiting:
    by_thread[one["tid"]].append(one)
assert len(waiting) == len(wanted), f"{len(waiting)} calls instead of {len(wanted)}: {waiting}"
for tid in {one.tid for one in wanted}:
    those = [one for one in wanted if one.tid == tid]
    assert len(by_thread[tid]) == len(those), (tid, by_thread[tid], those)
    for call, right in zip(by_thread[tid], those):
        assert call["function"] == right.function, (call, right)
        assert call["thread"] == right.thread, (call, right)
        name, _, offset = call["caller"]["name"].partition("+")
        assert name == right.caller, (call, right)
        assert int(offset, 16) in offsets[right.caller, right.function], (call, offsets)
        # The ratio of the two clocks is known to within 50 ppm.
        wrong = 1000 + call["age_ns"] // 10000
        assert before - right.earliest <= call["age_ns"] + wrong, (call, right)
        assert call["age_ns"] <= after - right.latest + wrong, (call, right)
print(len(waiting))
