# Every way it can fail: one line with the cause, the right status, the target unharmed.
load helpers

# refused STATUS PATTERN ARGUMENTS...: pinprick fails so, and says it in one line.
refused() {
  local expected=$1 pattern=$2
  shift 2
  run "$PINPRICK" "$@"
  echo "$output"
  [ "$status" -eq "$expected" ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" =~ $pattern ]]
}

@test "usage errors have status 2 and point to the help" {
  refused 2 'see .pinprick' count
  refused 2 'no process' count main
  refused 2 'no PATTERN' count -p 1
  refused 2 'no COMMAND' count main --
  refused 2 'exclude each other' count -p 1 main -- true
  refused 2 'takes the ELF right after it, not --instructions' list --file --instructions /bin/true
  refused 2 'needs an ELF' list --summary --instructions
  refused 2 'is no PID' count -p x main
  refused 2 'not auto, always or never' list --color sometimes -f /bin/true
  refused 2 'bad pattern' count -p 1 'libc:'
  refused 2 'not a regular expression' count -p 1 -r '('
}

@test "no such process" {
  refused 4 'no such process' count -p 999999999 main
}

@test "itself, and processes without memory" {
  sh -c 'exit 0' 3>&- &
  local zombie=$!
  ends_with_test $zombie
  patiently has_ended $zombie
  refused 4 'no memory of its own|no such process' count -p $zombie main
  # Where process IDs are the machine's own, 2 is the kernel's.
  [ "$(cat /proc/2/comm)" != kthreadd ] ||
    refused 4 'no memory of its own|not permitted' count -p 2 main
}

@test "of a kernel thread, all verbs say that it has no memory" {
  [ "$(id -u)" -eq 0 ] || skip "needs root: others are not permitted to look"
  [ "$(cat /proc/2/comm)" = kthreadd ] || skip "no kernel thread is to be seen here"
  local verb
  for verb in 'count main' 'list main' status detach keep; do
    # shellcheck disable=SC2086 # a verb and its pattern
    refused 4 'no memory of its own' $verb -p 2
  done
}

@test "numbers of processes and users are whole ones, and the message says what was given" {
  refused 2 "'abc' is no PID" detach -p 1 --owner abc
  refused 2 "'1.5' is no PID" detach -p 1 --owner 1.5
  refused 2 "'99999999999999' is no PID" count -p 99999999999999 main
  refused 2 "'-1' is no user's number" count --all /bin/true --uid -1 main
}

@test "not permitted" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to become another user"
  start_ticker
  chmod 711 "$work"
  run setpriv --reuid=65534 --regid=65534 --clear-groups "$PINPRICK" count -p $ticker -d 1 tick
  echo "$output"
  [ "$status" -eq 4 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"not permitted"* ]]
  tell "tick 10" ticked
  end_ticker
}

@test "already traced, and by which process" {
  start_ticker
  "$TARGETS/tracer" $ticker >"$work/tracer" 3>&- 7>&- &
  local tracer=$!
  ends_with_test $tracer
  until_line "$work/tracer" '^traced'
  refused 4 "traced by $tracer \(tracer\)" count -p $ticker -d 1 tick
  kill -KILL $tracer
  wait $tracer || true
  tell "tick 10" ticked
  end_ticker
}

@test "traced at the end: what stays until when, and nothing is lost" {
  start_ticker
  watch count -p $ticker ticker:tick
  tell "tick 10" ticked
  "$TARGETS/tracer" $ticker >"$work/tracer" 3>&- 7>&- &
  local tracer=$! status=0
  ends_with_test $tracer
  until_line "$work/tracer" '^traced'
  end_watch || status=$?
  [ $status -eq 1 ]
  [ "$(hits tick)" -eq 10 ]
  grep -q "traced by $tracer (tracer); .*its probes stay until \`pinprick detach -p $ticker\`" \
    "$work/errors" "$work/records"
  tell "tick 10" ticked
  kill -KILL $tracer
  wait $tracer || true
  "$PINPRICK" detach -p $ticker
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

@test "a 32-bit program" {
  [ -x "$TARGETS/pause32" ] || skip "the assembler cannot make 32-bit programs"
  "$TARGETS/pause32" 3>&- &
  local pid=$!
  ends_with_test $pid
  patiently has_begun $pid "$TARGETS/pause32"
  ! has_ended $pid || skip "this kernel does not run 32-bit programs"
  refused 4 '32-bit' count -p $pid main
  refused 125 '32-bit' count main -- "$TARGETS/pause32"
  refused 1 '32-bit' list --file "$TARGETS/pause32"
  refused 1 '32-bit' count --all "$TARGETS/pause32" main
  kill -0 $pid
}

@test "a pattern without a match" {
  start_ticker
  refused 3 "no function matches 'nothing_like_this'" count -p $ticker nothing_like_this
  refused 3 "no function matches 'libnone:\*'" count -p $ticker 'libnone:*'
  refused 3 "no function matches 'nix'" count -p $ticker tick nix
  refused 3 "every match is excluded" count -p $ticker tick -x 'ti*'
  run "$PINPRICK" count -p $ticker tick nix --allow-missing -d 0.01
  [ "$status" -eq 0 ]
  tell "tick 10" ticked
  end_ticker
}

@test "functions that cannot be probed make the status 1 if they were named, unless that is allowed" {
  start_ticker
  run "$PINPRICK" latency -p $ticker -d 0.01 'ticker:tick' 'ticker:_start'
  [ "$status" -eq 1 ]
  [[ "$output" == *"skipped _start: it is not entered by a call"* ]]
  run "$PINPRICK" latency -p $ticker -d 0.01 'ticker:tick' 'ticker:_start' --allow-missing
  [ "$status" -eq 0 ]
  run "$PINPRICK" latency -p $ticker -d 0.01 'ticker:_start'
  [ "$status" -eq 3 ]
  # A wildcard means what can be probed; but a function that was named as well is wanted.
  run "$PINPRICK" latency -p $ticker -d 0.01 'ticker:tick' 'ticker:_star*'
  [ "$status" -eq 0 ]
  [[ "$output" == *"skipped _start: it is not entered by a call"* ]]
  run "$PINPRICK" latency -p $ticker -d 0.01 -r 'ticker:(tick|_start)'
  [ "$status" -eq 0 ]
  run "$PINPRICK" latency -p $ticker -d 0.01 'ticker:*' 'ticker:_start'
  [ "$status" -eq 1 ]
  end_ticker
}

@test "files that are no programs, each with its own reason" {
  refused 1 'No such file' list -f "$work/none"
  echo hello >"$work/text"
  refused 1 'not an ELF file' list -f "$work/text"
  refused 1 'Is a directory' list -f "$work"
  head -c 1000 "$PINPRICK" >"$work/truncated"
  refused 1 'ends before' list -f "$work/truncated"
  head -c 30 "$PINPRICK" >"$work/header"
  refused 1 'ends before' list -f "$work/header"
  : >"$work/empty"
  refused 1 'not an ELF file' list -f "$work/empty"
  refused 3 "no function matches" list -f "$PINPRICK" nothing_like_this
}

@test "commands that cannot be started" {
  refused 125 'No such file' count main -- "$work/none"
  echo text >"$work/file"
  refused 125 'Permission denied' count main -- "$work/file"
  chmod +x "$work/file"
  run "$PINPRICK" count main -- "$work/file"
  [ "$status" -eq 125 ]
}

@test "a command whose file may be executed but not read is refused for that reason" {
  become_nobody "$PINPRICK"
  install -m 711 "$TARGETS/ticker" "$work/unread"
  run "${as_nobody[@]}" "$work/pinprick" count main -- "$work/unread"
  echo "$output"
  [ "$status" -eq 125 ]
  [[ "$output" == *"can be executed, but not read: Permission denied"* ]]
}

@test "a target that exits during attach ends in a message, not in a crash" {
  local ended=0
  for i in $(seq 60); do
    "$TARGETS/ticker" <<<"tick $((i * 20000))" >/dev/null 3>&- &
    local pid=$!
    run "$PINPRICK" count -p $pid -d 0.01 ticker:tick 'libc:*' --allow-missing
    case $status in
      0 | 4) ;;
      *) echo "status $status: $output"; return 1 ;;
    esac
    [ "$status" -eq 4 ] && ended=$((ended + 1))
    wait $pid
  done
  echo "$ended of 60 ended first"
  [ -z "$("$PINPRICK" status --json | grep '"command":"ticker"')" ]
}

@test "errors are records, with --json" {
  run "$PINPRICK" count --json -p 999999999 main
  [ "$status" -eq 4 ]
  [[ "$output" == *'"type":"error"'*'"cause":"no_such_process"'*'"exit":4'* ]]
}

@test "a closed output ends the run, and the probes are out" {
  start_ticker
  "$PINPRICK" count -p $ticker -i 0.01 ticker:tick 2>/dev/null 3>&- 7>&- | head -n 2 >/dev/null
  no_trace $ticker
  end_ticker
}

@test "a process whose control group is frozen is not waited for" {
  local groups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts) group
  group=$groups/pinprick-test.$BASHPID
  rmdir "$groups"/pinprick-test.* 2>/dev/null || true  # of a test that failed
  [ -n "$groups" ] && mkdir "$group" 2>/dev/null || skip "no control group can be made (cgroup v2)"
  frozen() { grep -q "frozen $1" "$group/cgroup.events"; }
  start_ticker
  if ! echo $ticker >"$group/cgroup.procs" || [ ! -e "$group/cgroup.freeze" ]; then
    rmdir "$group"
    skip "a process cannot be frozen here (cgroup v2)"
  fi
  echo 1 >"$group/cgroup.freeze"
  patiently frozen 1
  refused 4 'its control group is frozen' count -p $ticker -d 0.01 ticker:tick
  echo 0 >"$group/cgroup.freeze"
  patiently frozen 0
  # Also if it is frozen while it has probes: these can be taken out later.
  "$PINPRICK" count -p $ticker --json -o "$work/records" ticker:tick 2>"$work/errors" 3>&- 7>&- &
  local pid=$!
  patiently grep -q '"armed"' "$work/records"
  echo 1 >"$group/cgroup.freeze"
  patiently frozen 1
  kill -INT $pid
  local status=0
  wait $pid || status=$?
  [ "$status" -eq 1 ]
  echo 0 >"$group/cgroup.freeze"
  patiently frozen 0
  "$PINPRICK" detach -p $ticker
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
  patiently rmdir "$group"
}

@test "a child of vfork is refused as long as it runs in the memory of its parent" {
  mkfifo "$work/child"
  start_fed dlhost
  tell "vfork $work/child" vfork
  local child
  child=$(cat /proc/$fed/task/*/children)
  refused 4 "it runs in its parent's memory" count -p $child -d 0.01 dlhost:call
  : >"$work/child"
  tell join join
  end_fed
}

@test "a full runtime directory: refused before the target is touched" {
  start_ticker
  local maps
  maps=$(md5sum </proc/$ticker/maps)
  small_folder 16k
  refused 1 'No space left on device; free space there' latency -p $ticker -d 0.01 ticker:tick
  [ -z "$(ls -A "$work/runtime/pinprick")" ]
  umount "$work/runtime"
  [ "$maps" = "$(md5sum </proc/$ticker/maps)" ]
  tell "tick 10" ticked
  end_ticker
}

# counted_and_timed PATTERN: every tick, with the runtime directory that there is.
counted_and_timed() {
  local verb
  for verb in count latency; do
    watch $verb --allow-missing -p $ticker "$1"
    tell "tick 10000" ticked
    end_watch
    [ "$(field 'sum(x.get("hits", 0) + x.get("count", 0) for x in r if x.get("final") and x["function"] == "tick")')" -eq 10000 ]
    no_trace $ticker
  done
}

@test "a runtime directory with room for one histogram a function: CPUs share it, and nothing is lost" {
  start_ticker 4
  small_folder 400k
  counted_and_timed 'ticker:*'
  umount "$work/runtime"
  end_ticker
}

@test "a tiny runtime directory: fewer areas than CPUs, which are locked, and nothing is lost" {
  [ "$(getconf _NPROCESSORS_CONF)" -gt 1 ] || skip "this machine has one CPU, and needs no more areas"
  start_ticker 4
  small_folder 36k
  counted_and_timed ticker:tick
  [ "$(field '[x["rseq"] for x in r if x["type"] == "armed"]')" = '[False]' ]
  umount "$work/runtime"
  end_ticker
}

@test "a limit of our own on the size of files" {
  start_ticker
  run bash -c "ulimit -f 4; exec '$PINPRICK' latency -p $ticker -d 0.01 ticker:tick"
  echo "$output"
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"File too large"* ]]
  no_trace $ticker
  end_ticker
}

@test "a limit of our own on the address space" {
  ! grep -q __asan_init "$PINPRICK" || skip "AddressSanitizer needs terabytes of it"
  start_ticker
  local kib
  for kib in 20000 30000 40000 60000 80000; do
    run bash -c "ulimit -v $kib; exec '$PINPRICK' count -p $ticker -d 0.01 'ticker:*' 'libc:*' --allow-missing 2>&1"
    echo "$kib: $status: $output"
    ((status == 0 || status == 1 || status == 127))
    ((status != 1)) || [[ "$output" == *"out of memory"* ]]
  done
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

@test "limits of the target: descriptors, address space" {
  start_ticker
  prlimit --pid $ticker --nofile=3:
  refused 4 'shared file could not be handed to it: socketpair failed: Too many open files' count -p $ticker -d 0.01 ticker:tick
  prlimit --pid $ticker --nofile=1024:
  prlimit --pid $ticker --as=1000000:
  refused 4 'refused it mmap.*memory limit' count -p $ticker -d 0.01 ticker:tick
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

@test "a program that we start keeps its own way with SIGPIPE" {
  run "$PINPRICK" count 'bash:main' --allow-missing -- bash -c 'kill -PIPE $$; echo survived'
  echo "$output"
  [ "$status" -eq 141 ]
}

@test "a process that is not there, or is not to be looked into, is no process without probes" {
  start_ticker
  become_nobody "$PINPRICK"
  local verb
  for verb in status detach; do
    run "$PINPRICK" $verb -p 4194304
    [ "$status" -eq 4 ]
    [[ "$output" == *"no such process"* ]]
    run "${as_nobody[@]}" "$work/pinprick" $verb -p $ticker
    [ "$status" -eq 4 ]
    [[ "$output" == *"not permitted"* ]]
  done
  "$PINPRICK" status -p $ticker 2>&1 | grep -q "no probes of pinprick found"
  end_ticker
}

@test "results that cannot be written are an error that says why" {
  start_ticker
  local verb
  for verb in "count -p $ticker -d 0.1 ticker:tick" "list -p $ticker ticker:tick" doctor --help "count --help"; do
    run bash -c "'$PINPRICK' $verb 2>&1 >/dev/full"
    [ "$status" -ne 0 ]
    [[ "$output" == *"No space left on device"* ]]
  done
  run bash -c "'$PINPRICK' count -p $ticker -d 0.1 -o /dev/full ticker:tick 2>&1"
  [ "$status" -eq 1 ]
  [[ "$output" == *"/dev/full"*"No space left on device"* ]]
  end_ticker
}

@test "a file of results is kept until there are new ones" {
  start_ticker
  local earlier="results of an earlier command, which take more than a line of the new ones would"
  for i in $(seq 100); do echo "$earlier"; done >"$work/results"
  run "$PINPRICK" count -p $ticker -o "$work/results" ticker:no_such_function
  [ "$status" -eq 3 ]
  [ "$(sort -u "$work/results")" = "$earlier" ]
  "$PINPRICK" count -p $ticker -d 0.1 -o "$work/results" ticker:tick
  [[ "$(<"$work/results")" == *tick* ]]
  [[ "$(<"$work/results")" != *"$earlier"* ]]
  end_ticker
}

@test "a function that is named and cannot be probed is an error at once, in a library, too" {
  start_ticker
  run timeout 60 "$PINPRICK" count -p $ticker 'libc:read+0x1'
  [ "$status" -eq 3 ]
  [[ "$output" == *"none of the functions can be probed"* ]]
  end_ticker
}

@test "results of a command that cannot be written are a failure of pinprick, whatever the command returns" {
  [ -w /dev/full ] || skip "there is no /dev/full"
  run "$PINPRICK" count -o /dev/full ticker:main -- "$TARGETS/ticker" 1 </dev/null
  [ "$status" -eq 125 ]
  run "$PINPRICK" count --children=follow -o /dev/full ticker:main -- "$TARGETS/ticker" 1 </dev/null
  [ "$status" -eq 125 ]
}

# A wildcard may match what a library brings later.
@test "a pattern of which nothing could be probed to the end is an error" {
  start_ticker
  run "$PINPRICK" latency -p "$ticker" -d 0.1 'setjm*'
  [ "$status" -eq 3 ]
  [[ $output == *"none of the functions can be probed"* ]]
  run "$PINPRICK" latency --allow-missing -p "$ticker" -d 0.1 'setjm*'
  [ "$status" -eq 0 ]
  end_ticker
  run "$PINPRICK" latency 'setjm*' -- "$TARGETS/ticker" 1 </dev/null
  [ "$status" -eq 125 ]
}

@test "a process that is named twice is looked at once" {
  start_ticker
  watch count -p "$ticker" -p "$ticker" ticker:tick
  [ "$("$PINPRICK" status --json -p "$ticker" -p "$ticker" | grep -c '"function":"tick"')" -eq 1 ]
  end_watch
  end_ticker
}

@test "top says of a process that there is none, too" {
  run "$PINPRICK" top -d 0.1 -p 99999999
  [ "$status" -eq 4 ]
}

# elf_of FILE MACHINE CLASS ORDER: the first bytes of a program for it, which is all that is read.
elf_of() {
  evaluate - "$@" <<'PYTHON'
import struct, sys
machine, bits, order = int(sys.argv[2]), int(sys.argv[3]), '<>'[sys.argv[4] == 'big']
head = b'\x7fELF' + bytes([bits // 32, 1 + (order == '>'), 1]) + bytes(9)
words = 'QQQ' if bits == 64 else 'III'
head += struct.pack(order + 'HHI' + words + 'IHHHHHH', 2, machine, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
open(sys.argv[1], 'wb').write(head.ljust(4096, b'\0'))
PYTHON
  chmod +x "$1"
}

@test "a file for another machine is refused with the machine's name, however it is given" {
  local file number bits order name
  file=$work/other_machine
  while read -r number bits order name; do
    elf_of "$file" "$number" "$bits" "$order"
    refused 1 "cannot read $file: it is for $name" list --file "$file"
    refused 1 "cannot read $file: it is for $name" list --summary "$file"
    refused 1 "cannot read $file: it is for $name" count --all "$file" main
    # Also where the kernel would run it in an emulator.
    refused 125 "cannot start $file: it is for $name" count main -- "$file"
    PATH=$PATH:$work refused 125 "cannot start other_machine: it is for $name" latency main -- other_machine
  done <<END
183 64 little 64-bit ARM
40 32 little 32-bit ARM
3 32 little 32-bit x86
62 32 little x32
243 64 little RISC-V
22 64 big IBM Z
65520 64 little another machine .number 65520
END
}

@test "a command is found as the shell finds it, and its machine is that of the file" {
  mkdir "$work/first" "$work/second"
  elf_of "$work/first/tool" 183 64 little
  ln -s "$TARGETS/ticker" "$work/second/tool"
  PATH=$work/first:$work/second:$PATH refused 125 'it is for 64-bit ARM' count main -- tool
  # What cannot be executed is passed over.
  chmod -x "$work/first/tool"
  PATH=$work/first:$work/second:$PATH run "$PINPRICK" count ticker:main -- tool 1 </dev/null
  [ "$status" -eq 0 ]
}

@test "a kernel without a system call that is needed is named as the reason, by doctor, too" {
  start_ticker
  local needed
  # pidfd_open, from Linux 5.3; pidfd_getfd, from 5.6
  for needed in 434 438; do
    run python3 "$BATS_TEST_DIRNAME/no_syscall.py" $needed "$PINPRICK" count -p $ticker -d 0.01 ticker:tick
    [ "$status" -ne 77 ] || skip "no seccomp filter can be installed here"
    echo "$output"
    [ "$status" -eq 4 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"the kernel has no pidfd_"*"doctor"* ]]
    run python3 "$BATS_TEST_DIRNAME/no_syscall.py" $needed "$PINPRICK" doctor
    [ "$status" -eq 1 ]
    [[ "$output" == *"BAD   kernel "*"Linux 5.6"* ]]
  done
  no_trace $ticker
  tell "tick 10" ticked
  end_ticker
}

# In a PID namespace, whose /proc alone gets the option: of another mount of the same one, the machine
# would have it as well.
@test "a process that /proc hides is not taken for one that has ended" {
  become_nobody "$PINPRICK"
  unshare --pid --mount --fork --mount-proc --kill-child true 2>/dev/null ||
    skip "a PID namespace cannot be made here"
  cat >"$work/hidden" <<'END'
mount -o remount,hidepid=$1 /proc || exit 77
as_nobody="setpriv --reuid=65534 --regid=65534 --clear-groups $work/pinprick"
# Process 1 is this shell, root's.
for verb in 'count main' list status detach keep 'kstats list' doctor; do
  echo "$verb: $($as_nobody $verb -p 1 2>&1 | tr '\n' ' ')"
done
echo "none: $($as_nobody count -p 999999999 main 2>&1)"
END
  local hides
  for hides in 1 2; do
    run env work="$work" unshare --pid --mount --fork --mount-proc --kill-child bash "$work/hidden" $hides 3>&-
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 8 ]
    [ "$(grep -c 'root' <<<"$output")" -eq 7 ]
    [ "$(grep -cE 'no such process|there is no process' <<<"$output")" -eq 1 ]
    [[ "${lines[7]}" == "none: "*"no such process" ]]
  done
}

@test "session files need no folder from which programs may be executed" {
  start_ticker
  mkdir "$work/runtime"
  mount -t tmpfs -o noexec none "$work/runtime" 2>/dev/null || skip "cannot mount a tmpfs here"
  XDG_RUNTIME_DIR=$work/runtime counted_and_timed ticker:tick
  umount "$work/runtime"
  end_ticker
}

# read_only FOLDER...: a script that makes them so, and runs pinprick.
read_only() {
  unshare --mount true 2>/dev/null || skip "a mount namespace cannot be made here"
  printf 'mount -t tmpfs -o ro none %s || exit 77\n' "$@" >"$work/read_only"
  echo 'exec "$PINPRICK" "$@"' >>"$work/read_only"
  mkdir -p "$work/runtime"
  as_read_only=(env XDG_RUNTIME_DIR="$work/runtime" PINPRICK="$PINPRICK" unshare --mount
    bash "$work/read_only")
}

@test "of folders for session files that are read-only another one is taken, or that is the reason" {
  start_ticker
  read_only "$work/runtime"
  run "${as_read_only[@]}" count -p $ticker -d 0.01 ticker:tick
  [ "$status" -ne 77 ] || skip "cannot mount a tmpfs here"
  [ "$status" -eq 0 ]
  read_only "$work/runtime" /run /dev/shm  # /tmp is left
  run "${as_read_only[@]}" count -p $ticker -d 0.01 ticker:tick
  [ "$status" -eq 0 ]
  rmdir "/tmp/pinprick-$(id -u)"
  read_only "$work/runtime" /run /dev/shm /tmp
  run "${as_read_only[@]}" count -p $ticker -d 0.01 ticker:tick
  echo "$output"
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"no folder for session files: Read-only file system; set XDG_RUNTIME_DIR"* ]]
  run "${as_read_only[@]}" doctor
  [ "$status" -eq 1 ]
  [[ "$output" == *"BAD   runtime folder"*"Read-only file system"*"set XDG_RUNTIME_DIR"* ]]
  no_trace $ticker
  end_ticker
}

@test "root without CAP_SYS_PTRACE, as in a container, learns what it lacks" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to give up a capability"
  chmod 711 "$work"
  setpriv --reuid=65534 --regid=65534 --clear-groups cat <(:) /dev/zero >/dev/null 3>&- &
  local pid=$!
  ends_with_test $pid
  patiently has_begun $pid "$(command -v cat)"
  local verb
  for verb in 'count main' 'list main' status detach keep; do
    # shellcheck disable=SC2086
    run setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "$PINPRICK" $verb -p $pid
    echo "$output"
    [ "$status" -eq 4 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ "$output" == *"not permitted"*"CAP_SYS_PTRACE"* ]]
  done
}
