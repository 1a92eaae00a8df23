# Code that is not where its file was mapped, and code that no function contains: it is probed, or
# named.
load helpers

# start_moved "OBJECT HOW": a ticker, one of whose objects has moved its text (targets/remapper.c).
start_moved() {
  export REMAP=$1
  TICKER=ticker_moved start_ticker
  unset REMAP
  [ "$(code_without_file $ticker)" != "$(sha256sum </dev/null | cut -d' ' -f1)" ]
}

# code_without_file PID: a hash of all executable memory that is mapped from no file on a disk.
code_without_file() {
  evaluate - "$1" <<'PYTHON'
import hashlib, re, sys
memory = open(f'/proc/{sys.argv[1]}/mem', 'rb')
digest = hashlib.sha256()
for line in open(f'/proc/{sys.argv[1]}/maps'):
    m = re.match(r'(\w+)-(\w+) r.x. \w+ \S+ (\d+) *(.*)', line)
    if m and (m[3] == '0' or 'memfd' in m[4]) and not m[4].startswith('[v'):
        memory.seek(int(m[1], 16))
        digest.update(memory.read(int(m[2], 16) - int(m[1], 16)))
print(digest.hexdigest())
PYTHON
}

# hits_each: the different numbers of hits or calls in the last report.
hits_each() {
  field '{x.get("hits", x.get("count")) for x in r if x["type"] in ("count", "latency") and x["final"]}'
}

# probes_moved "OBJECT HOW" FUNCTION HITS VERB...: while it ticks 1,000 times, and no trace of it.
probes_moved() {
  local moved=$1 function=$2 hits=$3 before
  echo "$moved: ${*:4}"
  start_moved "$moved"
  before=$(code_without_file $ticker)
  watch "${@:4}" -p $ticker "$function"
  [ "$(code_without_file $ticker)" != "$before" ]
  tell "tick 1000" ticked
  end_watch
  [ "$(hits_each)" = "{$hits}" ]
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
  rm "$work/in" "$work/out"
}

@test "a program that moved its text into anonymous memory is probed there" {
  local how
  for how in anonymous twice whole everything; do  # its text is one page
    probes_moved "program $how" ticker_moved:tick 1000 count
    probes_moved "program $how" ticker_moved:tick 1000 latency
    probes_moved "program $how" ticker_moved:tick 1000 count --instructions
  done
}

@test "a library whose text was moved into anonymous memory is probed there" {
  local how
  for how in anonymous inner twice whole; do
    probes_moved "libc $how" libc:puts 1 count
    probes_moved "libc $how" libc:puts 1 latency
  done
}

@test "text between mappings of its file does not count as generated code: nothing stays mapped" {
  start_moved "program anonymous"
  local before
  before=$(wc -l </proc/$ticker/maps)
  watch count -p $ticker ticker_moved:tick
  tell "tick 10" ticked
  end_watch
  [ "$(wc -l </proc/$ticker/maps)" -eq "$before" ]
  [ "$(field '[x["kept_stub_bytes"] for x in r if x["type"] == "detached"]')" = "[0]" ]
  end_ticker
}

@test "a program that moves its probed text keeps its probes, and loses them at the end" {
  local verb how
  for verb in count latency; do
    for how in anonymous whole; do
      REMAP="program $how" "$PINPRICK" $verb --json -o "$work/records" ticker_moved:tick -- \
        "$TARGETS/ticker_moved" <<<'tick 1000' >"$work/printed"
      [ "$(cat "$work/printed")" = ticked ]
      [ "$(hits_each)" = "{1000}" ]
    done
  done
}

@test "text in shared memory is named with the reason, by count, list and doctor" {
  start_moved "program memfd"
  local why="cannot probe .*/ticker_moved: its code is in shared memory"
  run "$PINPRICK" count -p $ticker tick
  [ "$status" -eq 3 ]
  [[ "$output" =~ $why ]]
  # What is found elsewhere does not hide it.
  run "$PINPRICK" count -p $ticker -d 0.1 '*puts'
  [ "$status" -eq 0 ]
  [[ "$output" =~ $why ]]
  run "$PINPRICK" count -p $ticker -d 0.1 libc:puts
  [[ ! "$output" =~ $why ]]
  run "$PINPRICK" count -p $ticker ticker_moved:tick
  [ "$status" -eq 1 ]
  [[ "$output" =~ $why ]]
  run "$PINPRICK" list -p $ticker puts
  [[ "$output" =~ $why ]]
  run "$PINPRICK" doctor -p $ticker
  [[ "$output" =~ $why ]]
  tell "tick 10" ticked
  end_ticker
}

@test "a program whose code in memory is not its file's is named with the reason" {
  start_moved "program everything"
  # Another program under the name that the kernel has for it.
  python3 - $ticker <<'PYTHON'
import re, sys
pid = sys.argv[1]
for line in open(f'/proc/{pid}/maps'):
    m = re.match(r'(\w+)-(\w+) r.x. \w+ \S+ 0 *$', line)
    if m:
        with open(f'/proc/{pid}/mem', 'r+b') as memory:
            memory.seek(int(m[1], 16))
            memory.write(b'\xcc' * (int(m[2], 16) - int(m[1], 16)))
PYTHON
  run "$PINPRICK" count -p $ticker tick
  [ "$status" -eq 3 ]
  [[ "$output" =~ "cannot probe "[^$'\n']*"/ticker_moved: its code in memory is not that of its file" ]]
}

# with_unknown_code BYTES: a program of which so many bytes of code belong to no function.
with_unknown_code() {
  cat >"$work/hidden.S" <<END
        .section .text.hidden, "ax", @progbits
        .skip $1, 0xc3
        .section .note.GNU-stack, "", @progbits
END
  cat >"$work/main.c" <<'END'
int shown(int x) { return x + 1; }
int main(void) { return shown(-1); }
END
  gcc -O0 -o "$work/program" "$work/main.c" "$work/hidden.S"
}

@test "one line says how much of the code belongs to no function, where it is considerable" {
  command -v gcc >/dev/null || skip "there is no gcc"
  local says="program: 293 KB of its 29[3-9] KB of code are in no function"
  with_unknown_code 300000
  run "$PINPRICK" list -f "$work/program" '*'
  [[ "$output" =~ $says ]]
  run "$PINPRICK" count 'program:*' -- "$work/program"
  [[ "$output" =~ $says ]]
  run "$PINPRICK" latency '*' -- "$work/program"
  [[ "$output" =~ $says ]]
  # It is not said to those who name a function, or other objects.
  run "$PINPRICK" count shown -- "$work/program"
  [[ ! "$output" =~ "in no function" ]]
  run "$PINPRICK" count 'libc:mall*' -- "$work/program"
  [[ ! "$output" =~ "in no function" ]]
  with_unknown_code 30000
  run "$PINPRICK" list -f "$work/program" '*'
  [[ ! "$output" =~ "in no function" ]]
}
