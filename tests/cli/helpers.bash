# What the tests of the program share. PINPRICK and TARGETS come from ctest.
# Nothing here sleeps to wait: processes answer through pipes and files, and waiting for a line of a
# file is bounded.

# Debian's clang-14 alone installs no compiler without the version. Empty if there is none.
clang=$(command -v clang-14 || command -v clang || true)
clangxx=$(command -v clang++-14 || command -v clang++ || true)

setup() {
  : "${PINPRICK:?run through ctest}" "${TARGETS:?run through ctest}"
  work=$(mktemp -d)
  # No other test uses its sessions.
  runtime=$(mktemp -d /dev/shm/pinprick-test.XXXXXX 2>/dev/null || echo "$work/runtime")
  export XDG_RUNTIME_DIR=$runtime
  # And so is what it has decoded.
  export XDG_CACHE_HOME=$work/cache
  started=()
}

teardown() {
  local pid
  # All before any is waited for: one that another one traces ends when its tracer has.
  for pid in "${started[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$work" "$runtime"
  return 0
}

# Remembers a process that must not outlive the test.
ends_with_test() { started+=("$1"); }

# until_line FILE PATTERN: waits, 20 seconds at most, until a line of the file matches.
until_line() {
  local file=$1 pattern=$2 deadline=$((SECONDS + 20))
  until grep -qE -- "$pattern" "$file" 2>/dev/null; do
    if ((SECONDS > deadline)); then
      echo "no line '$pattern' in $file:" >&2
      cat "$file" >&2
      return 1
    fi
    read -rt 0.02 <> <(:) || true
  done
}

# patiently COMMAND...: repeats it until it succeeds, for 20 seconds at most.
patiently() {
  local deadline=$((SECONDS + 20))
  until "$@"; do
    if ((SECONDS > deadline)); then echo "never: $*" >&2; return 1; fi
    read -rt 0.01 <> <(:) || true
  done
}

# has_begun PID PROGRAM: it is no copy of this shell any more.
has_begun() { [[ "$(readlink "/proc/$1/exe" || true)" -ef "$2" ]] || has_ended "$1"; }
has_ended() { ! grep -q '^State:.[^Z]' "/proc/$1/status" 2>/dev/null; }

# start_fed TARGET [ARGUMENT...]: a program that reads from descriptor 7 and writes to $work/out, as
# $fed, which has come to its own code.
start_fed() {
  mkfifo "$work/in"
  "$TARGETS/$1" "${@:2}" <"$work/in" >"$work/out" 3>&- &
  fed=$!
  ends_with_test $fed
  exec 7>"$work/in"
  patiently has_begun $fed "$TARGETS/$1"
}

# start_ticker [THREADS]: tests/targets/ticker.c; talk to it with `tell`.
start_ticker() {
  start_fed "${TICKER:-ticker}" "${1:-1}"
  ticker=$fed
  tell ready ready
}

# use_copy TARGET: from now on the target is a file of the test's own. With --all FILE, a test measures
# all that run the file, and other tests run at the same time.
use_copy() {
  cp "$TARGETS/$1" "$work/$1"
  TARGETS=$work
}

# tell "COMMAND" ANSWER: sends the line, and waits for one more answer like that.
tell() {
  local before
  before=$(grep -c "^$2\$" "$work/out" 2>/dev/null || true)
  echo "$1" >&7
  local deadline=$((SECONDS + 120))
  until (($(grep -c "^$2\$" "$work/out" || true) > before)); do
    ((SECONDS > deadline)) && { echo "no answer to '$1'" >&2; cat "$work/out" >&2; return 1; }
    if grep -q WRONG "$work/out"; then cat "$work/out" >&2; return 1; fi
    read -rt 0.01 <> <(:) || true
  done
}

# answer LINE: sends it to the program, and prints the next line that it writes.
answer() {
  local lines
  lines=$(wc -l <"$work/out")
  echo "$1" >&7
  patiently has_more_lines "$lines" || return
  tail -n +$((lines + 1)) "$work/out" | head -n 1
}
has_more_lines() { (($(wc -l <"$work/out") > $1)); }

# The program is right in what it computes, and ends well.
end_fed() {
  exec 7>&-
  wait "$fed"
}

# The ticker ends by itself, with status 0.
end_ticker() {
  exec 7>&-
  wait "$ticker"
}

# watch VERB ARGUMENTS...: pinprick in the background, armed; its records are in $work/records.
watch() {
  : >"$work/records"  # not those of an earlier one, until the shell in the background comes to it
  "$PINPRICK" "$@" --json >"$work/records" 2>"$work/errors" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  local deadline=$((SECONDS + 20))
  until grep -qE '"type":"(files_)?armed"' "$work/records"; do
    kill -0 $watcher 2>/dev/null || { cat "$work/records" "$work/errors" >&2; return 1; }
    ((SECONDS > deadline)) && { echo "not armed" >&2; return 1; }
    read -rt 0.01 <> <(:) || true
  done
}

# end_watch [SIGNAL]: Ctrl-C, and its exit status.
end_watch() {
  kill "-${1:-INT}" "$watcher"
  wait "$watcher"
}

# field EXPRESSION: of the records; `r` is the list of them. Prints the value.
# e.g.  field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])'
field() {
  python3 -c '
import json, sys
r = [json.loads(line) for line in open(sys.argv[1])]
print(eval(sys.argv[2]))' "$work/records" "$1"
}

# hits FUNCTION: of the last report
hits() { field "[x['hits'] for x in r if x['type'] == 'count' and x['final'] and x['function'] == '$1'][0]"; }

# keyed FUNCTION: keys and hits of the last report, as JSON.
keyed() {
  field "sorted([x['key'], x['hits']] for x in r
                if x['type'] == 'count' and x['final'] and x['function'] == '$1'
                and x['key'] is not None)"
}

# figure_of NAME: what a program has written into $work/tally, a JSON object.
figure_of() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/tally" "$1"; }

# text_is_original PID: every executable mapping of a file equals the file, byte for byte.
text_is_original() {
  python3 - "$1" <<'PYTHON'
import re, sys
pid = sys.argv[1]
different = []
for line in open(f'/proc/{pid}/maps'):
    m = re.match(r'(\w+)-(\w+) (\S+) (\w+) \S+ (\d+)\s*(.*)', line)
    begin, end, offset, inode, path = int(m[1], 16), int(m[2], 16), int(m[4], 16), int(m[5]), m[6]
    if 'x' not in m[3] or inode == 0:
        continue
    with open(f'/proc/{pid}/mem', 'rb') as memory, open(path, 'rb') as file:
        memory.seek(begin)
        file.seek(offset)
        size = end - begin
        if memory.read(size) != file.read(size).ljust(size, b'\0'):
            different.append(path)
if different:
    sys.exit('text differs from the file: ' + ' '.join(different))
PYTHON
}

# no_trace PID: nothing of pinprick is left in the process, nor a record of it.
no_trace() {
  # The session's file, not a program that lies in a folder of that name.
  if grep -qE '/pinprick[^/]*/[0-9.-]+\.session' "/proc/$1/maps"; then cat "/proc/$1/maps" >&2; return 1; fi
  text_is_original "$1"
  [ "$("$PINPRICK" status -p "$1" --json | wc -l)" -eq 0 ]
}

# small_folder SIZE: a tmpfs of that size as the runtime directory.
small_folder() {
  mkdir "$work/runtime"
  mount -t tmpfs -o "size=$1" none "$work/runtime" 2>/dev/null || skip "cannot mount a tmpfs here"
  export XDG_RUNTIME_DIR=$work/runtime
}

# become_nobody PROGRAM...: copies that another user may run, wherever the checkout lies.
become_nobody() {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to become another user"
  chmod 711 "$work"
  install -d -o 65534 -m 700 "$work/unprivileged" "$work/unprivileged/runtime"
  install -m 755 "$@" "$work"
  as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups
    env XDG_RUNTIME_DIR="$work/unprivileged/runtime")
}

# The verbs that --help lists, each on a line.
verbs() { "$PINPRICK" --help | sed -n '/^Subcommands:/,/^$/p' | awk 'NR > 1 && NF { print $1 }'; }

# help_options [VERB]: each on a line, -p as well as --pid.
help_options() {
  "$PINPRICK" "$@" --help | grep -oE '^  -[-,A-Za-z]+' | tr -d ' ' | tr ',' '\n' | sort -u
}

# same_lines A B: which are lists.
same_lines() { diff <(echo "$1") <(echo "$2"); }
