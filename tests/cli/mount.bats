# The statistics of processes as files. The tree is that of tests/control/programs/memory_tree.cc,
# whose statistics are in memory only and whose processes are the files of a folder; the last tests
# run `pinprick mount` itself.
load helpers

eval "$(declare -f teardown | sed '1s/teardown/end_all/')"
# Nothing must remove a folder with the files of a mount in it.
teardown() {
  local pid
  for pid in "${started[@]}"; do kill -TERM "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
  if is_mounted; then fusermount3 -u -z "$work/tree"; fi
  end_all
}

is_mounted() { grep -q " $work/tree fuse" /proc/mounts; }

# serve COMMAND...: runs it in the background, as $server, and waits until it has mounted. What it
# says is in $work/said.
serve() {
  : >"$work/said"  # not what an earlier one said
  "$@" >"$work/said" 2>&1 3>&- 7>&- &
  server=$!
  ends_with_test $server
  until_line "$work/said" '^(mounted|cause|pinprick:)'
  if grep -qE '^cause [45] |fusermount3|/dev/fuse' "$work/said"; then
    skip "FUSE does not work here: $(cat "$work/said")"
  fi
  grep -q ^mounted "$work/said"
}

# start_tree PID...
start_tree() {
  mkdir -p "$work/tree" "$work/pids"
  (cd "$work/pids" && touch "$@")
  serve "$TARGETS/memory_tree" "$work/tree" "$work/pids"
  cd "$work/tree" || return
}

# fails_with MESSAGE COMMAND...: it fails, and that is in what it says.
fails_with() {
  local message=$1
  shift
  run "$@"
  echo "$output"
  [ "$status" -ne 0 ]
  [[ "$output" == *"$message"* ]]
}

# put LINE FILE
put() { echo "$1" >"$2"; }

@test "a process has a folder, and a statistic has a file, which are the mounter's alone" {
  start_tree 17 42
  [ "$(echo *)" = "17 42" ]
  [ "$(ls -A 17)" = _control ]
  echo trace read >17/_control
  [ "$(cd 17 && echo *)" = "GAP-read _control read" ]
  [ "$(ls -A 42)" = _control ]
  [ "$(cat 17/_control)" = "read GAP-read" ]
  [ "$(stat -c '%a %U' 17 17/read 17/_control | sort -u)" = "600 $(id -un)
700 $(id -un)" ]
  # A statistic that was just created is not years old.
  [ "$(find 17/read -newermt '-1 hour' | wc -l)" -eq 1 ]
}

@test "a script for the files that kstats has in debugfs runs" {
  start_tree 17
  cat >"$work/script" <<'SCRIPT'
set -e
cd "$1"
echo "trace read bits 4" > _control
echo "TRACE time START read END write" > _control
echo STOP > read
echo RESET > read
echo START > read
for i in 1 2 3 4 5 6 7 8 9; do cat read > /dev/null; done
for s in $(cat _control); do
  cat $s | awk '/CPUS/ { n += $5 } END { print FILENAME, n }'
done
grep CPUS read | sort -k 2n | tail -n 1 | grep -q "p 1.000000"
echo "remove time" > _control
rm read
test "$(cat _control)" = ""
SCRIPT
  sh "$work/script" "$work/tree/17"
  [ "$(ls -A 17)" = _control ]
}

@test "an error of a command is that of the write, and its reason is said by the server" {
  start_tree 17
  fails_with "No such file" put "trace no_such_function" 17/_control
  fails_with "Invalid argument" put "trace x bits 6" 17/_control
  echo trace x >17/_control
  fails_with "File exists" put "trace x" 17/_control
  fails_with "No such file" put "remove y" 17/_control
  fails_with "Invalid argument" put "PAUSE" 17/x
  fails_with "No such file" put "START" 17/y
  fails_with "Invalid argument" dd if=/dev/zero of=17/_control bs=100k count=1
  [ "$(cat 17/_control)" = "x GAP-x" ]
  grep -qF "17/_control: trace no_such_function: there is no function 'no_such_function' (ENOENT)" \
    "$work/said"
  [ "$(grep -c ^17/ "$work/said")" -eq 6 ]
}

@test "rm removes a statistic, and nothing else can be removed, created or renamed" {
  start_tree 17
  printf 'trace a\ntrace b\n' >17/_control
  rm 17/a
  [ "$(cat 17/_control)" = "b GAP-b" ]
  fails_with "not permitted" rm 17/GAP-b
  fails_with "not permitted" rm 17/_control
  fails_with "not permitted" rmdir 17
  fails_with "not permitted" mkdir 18
  fails_with "not permitted" mv 17/b 17/c
  fails_with "not permitted" chmod 644 17/b
  fails_with "No such file" touch 17/c
  [ "$(cat 17/_control)" = "b GAP-b" ]
}

@test "a command may come in several writes, and without a newline" {
  start_tree 17
  python3 - <<'PYTHON'
import os
control = os.open('17/_control', os.O_WRONLY)
def names(): return open('17/_control').read()
for part in b'tra', b'ce', b' a':
    assert os.write(control, part) == len(part)
assert names() == '\n', names()
# A write takes one line.
assert os.write(control, b'a\ntrace b') == 2
assert names() == 'aa GAP-aa\n', names()
assert os.write(control, b'trace b') == 7
assert names() == 'aa GAP-aa\n', names()
os.close(control)
assert names() == 'aa GAP-aa b GAP-b\n', names()
PYTHON
}

@test "several commands may come in one write, and the error of a wrong one is seen" {
  start_tree 17
  printf 'trace a\nremove a\ntrace b\n' >17/_control
  [ "$(cat 17/_control)" = "b GAP-b" ]
  printf 'trace c\ntrace no_such\n' >"$work/commands"
  fails_with "No such file" cp "$work/commands" 17/_control
  [ "$(cat 17/_control)" = "b GAP-b c GAP-c" ]
}

@test "an error of a command without a newline is that of close" {
  start_tree 17
  python3 - <<'PYTHON'
import errno, os
control = os.open('17/_control', os.O_WRONLY)
os.write(control, b'trace no_such')
try:
    os.close(control)
except OSError as error:
    assert error.errno == errno.ENOENT, error
else:
    assert False, 'close did not fail'
PYTHON
}

# long_statistic: 17/read, which stands still, with a text of some pages.
long_statistic() {
  local i
  echo trace read bits 5 >17/_control
  for i in {1..60}; do cat 17/read >/dev/null; done
  echo stop >17/read
  cat 17/read >"$work/text"
  [ "$(wc -c <"$work/text")" -gt 8192 ]
}

@test "a text of some pages is read whole, however it is read" {
  start_tree 17
  long_statistic
  cmp 17/read "$work/text"
  cp 17/read "$work/copy" && cmp "$work/copy" "$work/text"
  dd if=17/read of="$work/copy" bs=7 2>/dev/null && cmp "$work/copy" "$work/text"
  tail -n 3 17/read | cmp - <(tail -n 3 "$work/text")
  tail -c 100 17/read | cmp - <(tail -c 100 "$work/text")
  [ "$(stat -c %s 17/read)" -eq "$(wc -c <"$work/text")" ]
  [ "$(wc -l <17/read)" -eq "$(wc -l <"$work/text")" ]
  grep -c slot 17/read
}

@test "a text that becomes longer while it is read is read whole as it was when it was opened" {
  start_tree 17
  echo trace read >17/_control
  for _ in 1 2 3; do cat 17/read >/dev/null; done
  exec 8<17/read
  read -r first <&8
  for _ in {1..20}; do cat 17/read >"$work/later"; done
  cat <&8 >"$work/rest"
  exec 8<&-
  { echo "$first"; cat "$work/rest"; } >"$work/text"
  tail -n 1 "$work/text" | grep -q 'CPUS.* p 1.000000$'
  [ "$(wc -l <"$work/text")" -lt "$(wc -l <"$work/later")" ]
}

# is_whole FILE: its last line is the sum that has all values.
is_whole() { tail -n 1 "$1" | grep -qE '^slot [0-9]+ +CPUS 1 .* p 1\.000000$'; }

@test "readers at the same time see whole texts, while others write" {
  start_tree 17
  echo trace read >17/_control
  local reader readers=()
  for reader in 1 2 3 4; do
    for _ in {1..50}; do
      cat 17/read >"$work/text$reader"
      is_whole "$work/text$reader" || { cp "$work/text$reader" "$work/torn$reader"; break; }
    done 3>&- &
    readers+=($!)
  done
  for _ in {1..50}; do
    echo stop >17/read
    echo start >17/read
    echo trace other >17/_control
    rm 17/other
  done
  for reader in "${readers[@]}"; do wait "$reader"; done
  [ "$(find "$work" -maxdepth 1 -name 'torn*' | wc -l)" -eq 0 ]
  is_whole "$work/text4"
}

@test "folders come and go with their processes" {
  start_tree 17
  echo trace read >17/_control
  exec 8<17/read
  touch "$work/pids/99"
  [ "$(echo *)" = "17 99" ]
  rm "$work/pids/17"
  [ "$(echo *)" = 99 ]
  fails_with "No such file" cat 17/read
  # What was opened before can be read, by what does not ask for its size.
  python3 -c 'import os; os.read(8, 100000).decode().endswith("1.000000\n") or exit(1)'
  exec 8<&-
}

@test "statistics are provided for while the tree is mounted" {
  start_tree 17
  until_line "$work/said" '^provided$'
}

@test "a process does not wait for itself when it traces itself, or changes what was traced" {
  start_tree 17
  # This shell writes itself, with a command of its own.
  local self=$BASHPID
  touch "$work/pids/$self"
  if echo trace read 2>"$work/errors" >"$self/_control"; then return 1; fi
  grep -q "deadlock avoided" "$work/errors"
  [ "$(ls -A "$self")" = _control ]
  # Its child may do it.
  (put "trace read" "$self/_control")
  [ "$(cat "$self/_control")" = "read GAP-read" ]
  # Each of these would stop all its threads, too.
  local line
  for line in START STOP RESET; do
    if echo $line 2>"$work/errors" >"$self/read"; then return 1; fi
    grep -q "deadlock avoided" "$work/errors"
  done
  (put STOP "$self/read")
}

@test "Ctrl-C and SIGTERM unmount, and so does umount, which ends the server" {
  local way
  for way in INT TERM; do
    start_tree 17
    cd "$work"
    exec 8<"$work/tree/17/_control"
    kill -$way "$server"
    wait "$server"
    ! is_mounted
    fails_with "not connected" cat <&8
    exec 8<&-
  done
  start_tree 17
  cd "$work"
  fusermount3 -u "$work/tree"
  wait "$server"
  ! is_mounted
}

@test "pinprick mount shows the files, until Ctrl-C" {
  mkdir "$work/tree"
  serve "$PINPRICK" mount "$work/tree"
  grep -qx "mounted at $work/tree, until Ctrl-C" "$work/said"
  [ "$(stat -c '%a %U' "$work/tree")" = "700 $(id -un)" ]
  kill -INT "$server"
  wait "$server"
  ! is_mounted
}

@test "a real process is traced, shown, stopped, reset and left through the files" {
  mkdir "$work/tree"
  start_fed spans
  tell ready "done"
  serve "$PINPRICK" mount "$work/tree"
  cd "$work/tree"
  [ ! -e "$fed" ] || [ "$(ls "$fed")" = _control ]
  echo trace pair start begin end end >"$fed/_control"
  [ "$(echo *)" = "$fed" ]
  tell "pairs 100" "done"
  # times_in FILE: how many there are, by its lines of sums.
  times_in() { awk '/CPUS/ { n += $6 } END { print n + 0 }' "$1"; }
  [ "$(times_in "$fed/pair")" -eq 100 ]
  [ "$("$PINPRICK" kstats -p "$fed" show pair)" = "$(cat "$fed/pair")" ]
  echo STOP >"$fed/pair"
  tell "pairs 100" "done"
  [ "$(times_in "$fed/pair")" -eq 100 ]
  echo RESET >"$fed/pair"
  [ ! -s "$fed/pair" ]
  echo START >"$fed/pair"
  tell "pairs 7" "done"
  [ "$(times_in "$fed/pair")" -eq 7 ]
  fails_with "File exists" put "trace pair start begin" "$fed/_control"
  fails_with "No such file" put "trace other start no_such_function" "$fed/_control"
  rm "$fed/pair"
  no_trace "$fed"
  echo trace begin >"$fed/_control"
  end_fed
  is_gone() { [ "$(ls)" = "" ]; }
  patiently is_gone
  cd /
}

@test "pinprick mount refuses folders where it cannot mount, and says why" {
  mkdir "$work/tree"
  touch "$work/file"
  fails_with "cannot mount at $work/none: No such file or directory; give a folder" \
    "$PINPRICK" mount "$work/none"
  fails_with "cannot mount at $work/file: Not a directory" "$PINPRICK" mount "$work/file"
  fails_with "DIR is required" "$PINPRICK" mount
  [ "$status" -eq 2 ]
  serve "$PINPRICK" mount "$work/tree"
  fails_with "is mounted there already" "$PINPRICK" mount "$work/tree"
  [ "$status" -eq 1 ]
  # The first one goes on.
  [ -z "$(ls -A "$work/tree")" ]
}

@test "pinprick mount refuses folders in which it looks for sessions itself, and those around them" {
  # refuses DIR: before it mounts. A server of such a folder waits for itself, and is killed.
  refuses() {
    fails_with "cannot mount at $1: pinprick itself looks for sessions in " \
      timeout -s KILL 20 "$PINPRICK" mount "$1"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
  }
  export XDG_RUNTIME_DIR=$work/above/runtime
  mkdir -p "$XDG_RUNTIME_DIR/pinprick/within"
  refuses "$XDG_RUNTIME_DIR/pinprick"
  refuses "$XDG_RUNTIME_DIR/pinprick/within"
  refuses "$XDG_RUNTIME_DIR"
  refuses "$work/above"
  ln -s "$XDG_RUNTIME_DIR/pinprick" "$work/link"
  refuses "$work/link"
  [[ "$runtime" != /dev/shm/* ]] || refuses "$runtime"
  # There need not be one yet.
  rmdir "$XDG_RUNTIME_DIR/pinprick/within" "$XDG_RUNTIME_DIR/pinprick"
  refuses "$XDG_RUNTIME_DIR"
  # Beside it there is no harm.
  mkdir "$work/tree"
  serve "$PINPRICK" mount "$work/tree"
}

@test "pinprick mount refuses a process that is not there" {
  mkdir "$work/tree"
  sh -c 'exit 0' &
  local ended=$!
  wait $ended
  fails_with "process $ended: " "$PINPRICK" mount -p $ended "$work/tree"
  [ "$status" -eq 4 ]
  ! is_mounted
}

@test "where a killed pinprick was mounted, the next one says how to unmount" {
  mkdir "$work/tree"
  serve "$PINPRICK" mount "$work/tree"
  kill -KILL "$server"
  wait "$server" || true
  is_mounted
  fails_with "not connected" ls "$work/tree"
  fails_with "run \`fusermount3 -u $work/tree\` first" "$PINPRICK" mount "$work/tree"
  fusermount3 -u "$work/tree"
  serve "$PINPRICK" mount "$work/tree"
  [ -z "$(ls -A "$work/tree")" ]
}

@test "without the right to mount one line names the verb that needs no mount" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to give up its rights"
  mkdir "$work/tree"
  fails_with "Operation not permitted; if you are not root, it needs fusermount3" \
    setpriv --inh-caps=-sys_admin --bounding-set=-sys_admin "$PINPRICK" mount "$work/tree"
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *'`pinprick kstats -p PID` does the same'* ]]
  unshare --mount true || skip "needs the right to make mount namespaces"
  fails_with "/dev/fuse cannot be opened: No such file or directory; \`pinprick kstats -p PID\`" \
    unshare --mount sh -c 'mount -t tmpfs none /dev && exec "$@"' sh "$PINPRICK" mount "$work/tree"
  [ "${#lines[@]}" -eq 1 ]
}
