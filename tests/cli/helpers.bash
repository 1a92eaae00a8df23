# What the tests of the program share. PINPRICK and TARGETS come from ctest.
# Nothing here sleeps to wait: processes answer through pipes and files, and waiting for a line of a
# file is bounded. What waits starts no process for each look, as a process costs as much as the look is
# worth: files are read with mapfile and not with grep.

# Debian's clang-14 alone installs no compiler without the version. Empty if there is none.
clang='' clangxx=''
for name in clang clang-14; do
  command -v "$name" >/dev/null && clang=$name
  command -v "${name/clang/clang++}" >/dev/null && clangxx=${name/clang/clang++}
done
unset name

setup() {
  : "${PINPRICK:?run through ctest}" "${TARGETS:?run through ctest}"
  # A failure in here is shown at the line of the test that called. bats needs longer to note the lines of
  # a loop that waits than the loop takes.
  bats_add_debug_exclude_path "$BATS_TEST_DIRNAME"
  local own=$$.$RANDOM
  work=${TMPDIR:-/tmp}/tmp.$own
  # No other test uses its sessions.
  runtime=/dev/shm/pinprick-test.$own
  [ -w /dev/shm ] || runtime=$work/runtime
  mkdir -m 700 "$work" "$runtime"
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

# nap [SECONDS]: reads from a pipe to which nothing is written.
nap() {
  local quiet=$BATS_FILE_TMPDIR/quiet
  [ -p "$quiet" ] || mkfifo "$quiet"
  read -rt "${1:-0.01}" <>"$quiet" || true
}

# has_line FILE PATTERN: an extended regular expression. The file may be a pipe.
has_line() {
  local lines line
  mapfile -t lines 2>/dev/null <"$1" || return
  if ((${#lines[@]} > 50)); then
    printf '%s\n' "${lines[@]}" | grep -qE -- "$2"
    return
  fi
  for line in "${lines[@]}"; do [[ $line =~ $2 ]] && return; done
  return 1
}

# read_lines FILE [SKIPPED]: those that are complete, as the array $lines, but for the first ones.
read_lines() {
  mapfile -s "${2:-0}" lines 2>/dev/null <"$1" || lines=()
  ((${#lines[@]} == 0)) || [[ ${lines[-1]} == *$'\n' ]] || unset 'lines[-1]'
}

# until_line FILE PATTERN: waits, a minute at most, until a line of the file matches.
until_line() {
  local file=$1 pattern=$2 deadline=$((SECONDS + 60))
  until has_line "$file" "$pattern"; do
    if ((SECONDS > deadline)); then
      echo "no line '$pattern' in $file:" >&2
      cat "$file" >&2
      return 1
    fi
    nap
  done
}

# patiently COMMAND...: repeats it until it succeeds, for a minute at most.
patiently() {
  local deadline=$((SECONDS + 60))
  until "$@"; do
    if ((SECONDS > deadline)); then echo "never: $*" >&2; return 1; fi
    nap
  done
}

# has_begun PID PROGRAM: it is no copy of this shell any more.
has_begun() { [[ "/proc/$1/exe" -ef "$2" ]] || has_ended "$1"; }
has_ended() { ! has_line "/proc/$1/status" '^State:.[^Z]'; }

# start_fed TARGET [ARGUMENT...]: a program that reads from descriptor 7 and writes to $work/out, as
# $fed, which has come to its own code.
start_fed() {
  mkfifo "$work/in"
  : >"$work/out"
  # Appended, so that a test may empty the file meanwhile.
  "$TARGETS/$1" "${@:2}" <"$work/in" >>"$work/out" 3>&- &
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
  local lines line known deadline=$((SECONDS + 120))
  read_lines "$work/out"
  known=${#lines[@]}
  echo "$1" >&7
  while true; do
    read_lines "$work/out"
    for line in "${lines[@]:known}"; do [[ $line =~ ^$2$'\n'$ ]] && return; done
    ((SECONDS > deadline)) && { echo "no answer to '$1'" >&2; cat "$work/out" >&2; return 1; }
    if [[ "${lines[*]}" == *WRONG* ]]; then cat "$work/out" >&2; return 1; fi
    nap
  done
}

# answer LINE: sends it to the program, and prints the next line that it writes.
answer() {
  local lines known
  read_lines "$work/out"
  known=${#lines[@]}
  echo "$1" >&7
  patiently has_more_lines "$known" || return
  read_lines "$work/out" "$known"
  printf '%s' "${lines[0]}"
}
has_more_lines() {
  local lines
  read_lines "$work/out" "$1"
  ((${#lines[@]} > 0))
}

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
  local deadline=$((SECONDS + 60))
  until has_line "$work/records" '"type":"(files_)?armed"'; do
    kill -0 $watcher 2>/dev/null || { cat "$work/records" "$work/errors" >&2; return 1; }
    ((SECONDS > deadline)) && { echo "not armed" >&2; return 1; }
    nap
  done
}

# watch_text ERRORS VERB ARGUMENTS...: the same without --json. The file has what it says, but not what it
# prints.
watch_text() {
  local errors=$1
  shift
  "$PINPRICK" "$@" 2>"$errors" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$errors" armed
}

# end_watch [SIGNAL]: Ctrl-C, and its exit status.
end_watch() {
  kill "-${1:-INT}" "$watcher"
  wait "$watcher"
}

# evaluate CODE ARGUMENTS...: as `python3 -c` does, and with - as the code, as `python3 -` does, but by one
# process for all tests of the file (evaluate.py), as python3 takes longer to start than to run it. It has
# no input, and its environment is not the test's.
evaluate() {
  local folder=$BATS_FILE_TMPDIR/evaluate code=$1 name=$BASHPID.$EPOCHREALTIME answered='' status errors printed
  [ "$code" != - ] || IFS= read -rd '' code || true
  if [ ! -p "$folder/ask" ]; then
    # Not this shell's child, which has tests to wait for.
    ! mkdir "$folder" 2>/dev/null ||
      (exec python3 "$BATS_TEST_DIRNAME/evaluate.py" "$folder" $PPID </dev/null >"$folder/errors" 2>&1 3>&- &)
    patiently test -p "$folder/ask" || { cat "$folder/errors" >&2; return 1; }
  fi
  # One at a time, as both sides of a pipe may ask.
  read -rt 60 -N 1 _ <>"$folder/turn" || true
  printf '%s\0' "$name" "$PWD" $# "$code" "${@:2}" 1<>"$folder/ask"
  # What a test asked that was ended meanwhile is passed over.
  until [ "$answered" = "$name" ]; do
    {
      read -rt 60 -d '' answered && read -rt 60 -d '' status && IFS= read -rt 60 -d '' errors &&
        IFS= read -rt 60 -d '' printed
    } <>"$folder/answer" || { echo "no answer from evaluate.py" >&2; cat "$folder/errors" >&2; return 1; }
  done
  printf . 1<>"$folder/turn"
  printf '%s' "$errors" >&2
  printf '%s' "$printed"
  return "$status"
}

# field EXPRESSION: of the records; `r` is the list of them. Prints the value.
# e.g.  field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])'
field() {
  evaluate '
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
figure_of() { evaluate 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/tally" "$1"; }

# text_is_original PID: every executable mapping of a file equals the file, byte for byte.
text_is_original() {
  evaluate - "$1" <<'PYTHON'
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
  local maps
  mapfile maps <"/proc/$1/maps"
  # The session's file, not a program that lies in a folder of that name.
  if [[ "${maps[*]}" =~ /pinprick[^/[:space:]]*/[0-9.-]+\.session ]]; then
    cat "/proc/$1/maps" >&2
    return 1
  fi
  text_is_original "$1"
  [ -z "$("$PINPRICK" status -p "$1" --json)" ]
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

# each_says VERB: each line of the input is ARGUMENTS|WORDS. With the arguments the verb ends with status 2,
# and its message has the words.
each_says() {
  local arguments words
  while IFS='|' read -r arguments words; do
    # shellcheck disable=SC2086
    run "$PINPRICK" "$1" $arguments
    # shellcheck disable=SC2154
    [[ $status -eq 2 && "$output" == *"$words"* ]] || { echo "$arguments: $status: $output"; return 1; }
  done
}

# same_lines A B: which are lists.
same_lines() { diff <(echo "$1") <(echo "$2"); }
