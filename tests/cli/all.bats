# pinprick count --all FILE: every process that has the file mapped, and every one that executes it
# later, from its first instruction.
load helpers

# follow ARGUMENTS...: as `watch`, with $file as the file, of which later executions are followed.
follow() {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  if ! watch "$@" --all "$file"; then
    ! grep -q 'without one a program can be followed from' "$work/records" ||
      skip "executions of static programs are not held before Linux 6.8"
    return 1
  fi
  local why
  why=$(field 'r[0]["why_not_followed"]')
  [ -z "$why" ] || { end_watch || true; skip "executions are not held here: $why"; }
}

# The file of a test is its own, as others may run the target.
copy_of_target() {
  file=$work/ruled
  cp "$TARGETS/ruled" "$file"
  export TALLY=$work/tally
  : >"$TALLY"
}

setup_file() { export BATS_TEST_TIMEOUT=240; }

# The calls that the programs themselves have counted.
told() { awk '{ sum += $2 } END { print sum + 0 }' "$TALLY"; }
processes() { wc -l <"$TALLY"; }
detached() { field "[x['$1'] for x in r if x['type'] == 'files_detached'][0]"; }
has_told() { (($(processes) >= $1)); }

@test "of 600 short processes, 8 at once, no call is missed" {
  copy_of_target
  follow count probed
  seq 600 | xargs -P8 -I{} "$file" 3
  end_watch
  [ "$(processes)" -eq 600 ]
  [ "$(told)" -eq 3600 ]
  [ "$(hits probed)" -eq 3600 ]
  [ "$(detached late)" -eq 0 ]
}

@test "by a hard link, a descriptor, a thread, after a failed execution: each call is counted" {
  copy_of_target
  ln "$file" "$work/link"
  follow count probed
  "$work/link" 5
  "$file" fd "$file"
  "$file" thread "$file"
  "$file" fail "$file"
  end_watch
  [ "$(processes)" -eq 7 ]
  [ "$(hits probed)" -eq "$(told)" ]
  [ "$(detached late)" -eq 0 ]
}

@test "a program that may open one file only is measured" {
  copy_of_target
  follow count probed
  bash -c 'for fd in /proc/self/fd/*; do ((${fd##*/} < 3)) || eval "exec ${fd##*/}>&-"; done
    ulimit -n 4
    exec "$0" 5' "$file"
  end_watch
  [ "$(processes)" -eq 1 ]
  [ "$(hits probed)" -eq "$(told)" ]
  [ "$(detached processes)" -eq 1 ]
}

@test "a program of a user who may not open the session's file is measured" {
  copy_of_target
  become_nobody "$PINPRICK"
  chmod 666 "$TALLY"
  follow count probed
  "${as_nobody[@]}" "$file" 4
  end_watch
  [ "$(processes)" -eq 1 ]
  [ "$(hits probed)" -eq "$(told)" ]
  [ "$(detached late)" -eq 0 ]
}

@test "a program finds zeros below its stack pointer when it starts" {
  file=$work/fresh_stack
  cp "$TARGETS/fresh_stack" "$file"
  "$file"
  follow count checked
  "$file"
  end_watch
  [ "$(hits checked)" -eq 1 ]
}

@test "in another mount namespace, by a bind mount" {
  copy_of_target
  mkdir "$work/there"
  unshare -m true 2>/dev/null || skip "cannot unshare mounts here"
  follow count probed
  unshare -m bash -c "mount --bind '$work' '$work/there' && '$work/there/ruled' 4"
  end_watch
  [ "$(told)" -eq 7 ]
  [ "$(hits probed)" -eq 7 ]
}

@test "as the interpreter of scripts; what ran before the probes were in is said" {
  copy_of_target
  printf '#!%s 3\n' "$file" >"$work/script"
  chmod 755 "$work/script"
  follow count probed
  for _ in $(seq 20); do "$work/script"; done
  end_watch
  [ "$(told)" -eq 120 ]
  # Where the file system cannot hold the kernel as it maps the program, some may be late.
  [ "$(hits probed)" -eq 120 ] || [ "$(detached late)" -gt 0 ]
}

# Marks with which the kernel reports each read of a file (FAN_PRE_ACCESS).
marks_for_reads() { grep -hE '^fanotify ino:.* mask:1[0-9a-f]{5} ' /proc/$watcher/fdinfo/* | wc -l; }
has_marks_for_reads() { [ "$(marks_for_reads)" -eq "$1" ]; }

@test "reads of a program are not reported, while and after it interprets scripts" {
  copy_of_target
  printf '#!%s 3\n' "$file" >"$work/script"
  chmod 755 "$work/script"
  follow count probed
  has_marks_for_reads 0
  for _ in 1 2 3; do "$work/script"; done
  patiently has_marks_for_reads 0
  end_watch
  [ "$(told)" -eq 18 ]
}

@test "reads of a static program are not reported any more when it is read at length" {
  copy_of_target
  cp "$TARGETS/ruled_static" "$file"
  printf '#!%s 3\n' "$file" >"$work/script"
  chmod 755 "$work/script"
  follow count probed
  if ! has_marks_for_reads 1; then
    end_watch
    skip "the kernel or the file system has no FAN_PRE_ACCESS"
  fi
  # Executions are not taken for readers.
  seq 40 | xargs -I{} "$file" 1
  for _ in 1 2 3; do "$work/script"; done
  has_marks_for_reads 1
  dd if="$file" of="$work/copy" bs=1k status=none
  cmp "$file" "$work/copy"
  has_marks_for_reads 0
  end_watch
  [ "$(hits probed)" -eq "$(told)" ]
  [ "$(detached late)" -eq 0 ]
}

@test "with too few descriptors, processes are left alone, and it is said once what to do" {
  copy_of_target
  printf '#!/bin/sh\nulimit -n 200\nexec "%s" "$@"\n' "$PINPRICK" >"$work/limited"
  chmod 755 "$work/limited"
  PINPRICK=$work/limited follow count probed
  mkfifo "$work/go"
  exec 8<>"$work/go"
  local pids=()
  for _ in $(seq 40); do
    "$file" 1 wait <"$work/go" >/dev/null 3>&- 8>&- &
    pids+=($!)
    ends_with_test $!
  done
  patiently grep -q "each takes some open files" "$work/records"
  exec 8>&-
  wait "${pids[@]}"
  end_watch
  [ "$(processes)" -eq 40 ]
  [ "$(grep -c "each takes some open files" "$work/records")" -eq 1 ]
  [ "$(field 'sum([x["left_alone"].get("no_descriptors", 0) + x["processes"] for x in r if x["type"] == "files_detached"])')" -eq 40 ]
}

@test "two at once on the same file: one has each call, the other one is told what it lacks" {
  copy_of_target
  follow count probed
  "$PINPRICK" count --json -o "$work/second" --all "$file" probed >"$work/out2" 2>&1 3>&- &
  second=$!
  ends_with_test $second
  until_line "$work/second" files_armed
  for _ in $(seq 20); do "$file" 3; done
  kill -INT $second
  wait $second
  end_watch
  [ "$(told)" -eq 120 ]
  # The kernel asks always the same one first.
  evaluate - "$work/records" "$work/second" <<'CHECK'
import json, sys
figures = []
for path in sys.argv[1:]:
    records = [json.loads(line) for line in open(path)]
    hits = sum(r["hits"] for r in records if r["type"] == "count" and r["final"])
    [last] = [r for r in records if r["type"] == "files_detached"]
    figures.append((hits, last["late"], sum(last["left_alone"].values())))
print(figures)
best, other = sorted(figures, key=lambda one: (one[0], -one[1]), reverse=True)
assert best == (120, 0, 0), figures
assert other[1] + other[2] == 20, figures
CHECK
}

@test "processes that run already are attached to, those of ended ones are kept, by pid and summed" {
  copy_of_target
  mkfifo "$work/one" "$work/two"
  "$file" 2 wait <"$work/one" >"$work/out1" 3>&- &
  one=$!
  ends_with_test $one
  "$file" 2 wait <"$work/two" >"$work/out2" 3>&- &
  two=$!
  ends_with_test $two
  exec 8>"$work/one" 9>"$work/two"
  until_line "$work/out1" ready
  until_line "$work/out2" ready
  follow count probed --by pid
  [ "$(field 'r[0]["processes"]')" -eq 2 ]
  echo >&8
  wait $one
  "$file" 5 8>&- 9>&-
  echo >&9
  wait $two
  end_watch
  [ "$(field '[x["hits"] for x in r if x["type"] == "count" and x["pid"] == 0]')" = "[10]" ]
  [ "$(field 'sorted(x["hits"] for x in r if x["type"] == "count" and x["pid"] != 0)')" = "[1, 1, 8]" ]
  exec 8>&- 9>&-
}

@test "--comm, --uid and --exclude-pid leave processes out" {
  copy_of_target
  ln "$file" "$work/other"
  mkfifo "$work/one"
  "$file" 1 wait <"$work/one" >"$work/out1" 3>&- &
  one=$!
  ends_with_test $one
  exec 8>"$work/one"
  until_line "$work/out1" ready
  follow count probed --comm 'rul*' --exclude-pid $one
  [ "$(field 'r[0]["processes"]')" -eq 0 ]
  "$work/other" 5
  "$file" 5
  end_watch
  [ "$(hits probed)" -eq 8 ]
  [ "$(detached processes)" -eq 1 ]
  follow count probed --uid 65534
  "$file" 5
  end_watch
  [ "$(detached processes)" -eq 0 ]
  echo >&8
  wait $one
  exec 8>&-
}

@test "latency times the calls of processes that start later, constructors included" {
  copy_of_target
  follow latency probed
  "$file" 5
  "$file" 5
  end_watch
  [ "$(field '[x["count"] for x in r if x["type"] == "latency"][0]')" -ge 14 ]
}

# A library of the test's own as $file, and processes that load it.
copy_of_library() {
  copy_of_target
  file=$work/libruled.so
  cp "$TARGETS/libruled.so" "$file"
}

@test "a library that is loaded later is probed before its IFUNC resolvers and constructors run" {
  copy_of_library
  for verb in count latency; do
    : >"$TALLY"
    follow $verb probed
    seq 40 | xargs -P8 -I{} "$TARGETS/ruled_user" "$file"
    for _ in 1 2 3 4 5; do "$TARGETS/ruled_user" "$file" thread; done
    seq 20 | LD_PRELOAD=$file xargs -P4 -I{} "$TARGETS/ruled_user" "$file"
    end_watch
    [ "$(processes)" -eq 65 ]
    # xargs has it as well, and runs its constructor.
    local calls
    calls=$(field 'sum(x.get("hits", x.get("count", 0)) for x in r if x["type"] in ("count", "latency"))')
    [ "$calls" -ge "$(told)" ]
    [ "$calls" -le $(($(told) + 50)) ]
    [ "$(detached late)" -eq 0 ]
  done
}

@test "a process that only reads a library is not attached to" {
  copy_of_library
  follow count probed
  cp "$file" "$work/copy"
  sha256sum "$file" >/dev/null
  end_watch
  cmp "$file" "$work/copy"
  [ "$(detached processes)" -eq 0 ]
  [ "$(detached left_alone)" = "{}" ]
}

# From here on, pinprick takes the kernel for one before Linux 6.8, where executions cannot be held.
by_loader() {
  command -v setarch >/dev/null || skip "needs setarch"
  printf '#!/bin/sh\nexec setarch --uname-2.6 %q "$@"\n' "$PINPRICK" >"$work/pinprick-by-loader"
  chmod 755 "$work/pinprick-by-loader"
  PINPRICK=$work/pinprick-by-loader
}

@test "before Linux 6.8: short processes are held by their loader, and no call is missed" {
  copy_of_target
  by_loader
  follow count probed
  [ "$(field 'r[0]["by_loader"]')" = True ]
  seq 100 | xargs -P8 -I{} "$file" 3
  "$file" fd "$file"
  "$file" thread "$file"
  "$file" fail "$file"
  end_watch
  [ "$(hits probed)" -eq "$(told)" ]
  [ "$(detached processes)" -eq 106 ]
  [ "$(detached late)" -eq 0 ]
}

@test "before Linux 6.8: other programs go on, and what is loaded by one that runs holds it no longer" {
  copy_of_target
  by_loader
  follow count probed
  "$TARGETS/ruled_user" "$TARGETS/libruled.so" thread
  "$file" 3
  end_watch
  [ "$(detached processes)" -eq 1 ]
  [ "$(detached executed)" -eq 1 ]
}

@test "before Linux 6.8: a program without a loader is refused, with the reason" {
  [ "$(id -u)" -eq 0 ] || skip "needs root, to hold executions"
  by_loader
  run "$PINPRICK" count --all "$TARGETS/ruled_static" probed
  [ "$status" -eq 3 ]
  [[ "$output" == *"has no loader"*"Linux 6.8"* ]]
}

@test "a controller killed while libraries are loaded hurts no program" {
  copy_of_library
  local round pids pid
  for round in $(seq 8); do
    follow count probed
    pids=()
    for _ in 1 2 3; do
      "$TARGETS/ruled_user" "$file" 3>&- &
      pids+=($!)
      "$TARGETS/ruled_user" "$file" thread 3>&- &
      pids+=($!)
    done
    for ((i = 0; i < round * 38; ++i)); do :; done
    kill -KILL $watcher
    for pid in "${pids[@]}"; do wait "$pid"; done
    wait $watcher || true
    [ "$(processes)" -eq $((round * 6)) ]
  done
}

@test "a traced process is let through untouched, and counted with the reason" {
  copy_of_target
  command -v strace >/dev/null || skip "strace is not installed"
  follow count probed
  strace -f -o "$work/trace" "$file" 5
  end_watch
  [ "$(told)" -eq 8 ]
  [ "$(detached left_alone)" = "{'already_traced': 1}" ]
}

@test "a controller killed at any moment hurts no program" {
  copy_of_target
  local round pids pid
  for round in $(seq 12); do
    follow count probed
    pids=()
    for _ in 1 2 3 4 5 6; do
      "$file" 50 3>&- &
      pids+=($!)
    done
    # Some are at the gate by now, some held, some being armed, some done.
    for ((i = 0; i < round * 25; ++i)); do :; done
    kill -KILL $watcher
    for pid in "${pids[@]}"; do wait "$pid"; done
    wait $watcher || true
    [ "$(processes)" -eq $((round * 6)) ]
  done
}

@test "a controller that is stopped ends after a second, and all that it held go on" {
  copy_of_target
  follow count probed
  kill -STOP $watcher
  pids=()
  for _ in 1 2 3 4; do
    "$file" 5 3>&- &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid"; done
  [ "$(processes)" -eq 4 ]
  status=0
  wait $watcher || status=$?
  [ "$status" -eq 137 ]
}

@test "a child that was forked goes on counting after its parent has ended" {
  copy_of_target
  mkfifo "$work/go"
  exec 8<>"$work/go"
  follow count probed --interval 0.1
  "$file" leave <"$work/go"
  # For longer than the end of the parent takes to be noticed.
  local reports
  reports=$(wc -l <"$work/records")
  patiently has_reported $((reports + 15))
  echo >&8
  patiently has_told 2
  end_watch
  [ "$(told)" -eq 13 ]
  [ "$(hits probed)" -eq 13 ]
  exec 8>&-
}
has_reported() { (($(wc -l <"$work/records") >= $1)); }

@test "nginx: each of its workers, while it reloads three times" {
  nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "there is no nginx"
  cat >"$work/nginx.conf" <<CONF
user root; daemon off; worker_processes 1; pid $work/nginx.pid; error_log $work/nginx.log; events { }
http { access_log off; client_body_temp_path $work; proxy_temp_path $work; fastcgi_temp_path $work;
  uwsgi_temp_path $work; scgi_temp_path $work;
  server { listen unix:$work/socket; location / { return 200 "\$pid"; } } }
CONF
  file=$work/nginx
  cp "$nginx" "$file"
  chmod 755 "$work"
  follow count ngx_http_process_request
  "$file" -p "$work" -c "$work/nginx.conf" 2>>"$work/nginx.log" 3>&- &
  local server=$!
  ends_with_test $server
  patiently test -S "$work/socket"
  # Says how many of 200 requests were answered by how many workers, from the first answer by one that
  # was not there before.
  workers_after_reload() {
    python3 - "$work/socket" "$1" <<'PYTHON'
import socket, sys, time
def ask():
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    one.sendall(b'GET / HTTP/1.0\r\n\r\n')
    answer = b''
    while part := one.recv(4096): answer += part
    return answer.split(b'\r\n\r\n')[1].decode()
before = set(sys.argv[2].split())
asked, seen = 0, set()
end = time.monotonic() + 30
while asked < 200 or not seen - before:
    seen.add(ask())
    asked += 1
    assert time.monotonic() < end, seen
print(asked, *(seen - before))
PYTHON
  }
  local sum=0 known= asked answer i
  for i in 1 2 3 4; do
    answer=$(workers_after_reload "$known")
    asked=${answer%% *}
    known+=" ${answer#* }"
    sum=$((sum + asked))
    [ "$i" -eq 4 ] || kill -HUP "$server"
  done
  kill -QUIT "$server"
  wait "$server"
  end_watch
  [ "$(hits ngx_http_process_request)" -eq "$sum" ]
  [ "$(detached late)" -eq 0 ]
}

@test "a program and a library at once: both are counted in a process that loads the library later" {
  copy_of_library
  cp "$TARGETS/ruled_user" "$work/user"
  follow count main probed --all "$work/user"
  seq 10 | xargs -P4 -I{} "$work/user" "$file"
  "$TARGETS/ruled_user" "$file"
  end_watch
  [ "$(processes)" -eq 11 ]
  [ "$(hits main)" -eq 10 ]
  [ "$(hits probed)" -eq "$(told)" ]
}

@test "with few descriptors: no execution fails, and no program is hurt" {
  copy_of_target
  printf '#!/bin/sh\nulimit -n 140\nexec "%s" "$@"\n' "$PINPRICK" >"$work/limited"
  chmod 755 "$work/limited"
  PINPRICK=$work/limited follow count probed
  seq 120 | xargs -P40 -I{} "$file" 3
  end_watch
  [ "$(processes)" -eq 120 ]
  # Each is measured, or said to be left alone.
  [ "$(hits probed)" -eq $(($(detached processes) * 6)) ]
  [ "$(field 'r[-1]["processes"] + sum(r[-1]["left_alone"].values())')" -eq 120 ]
}

@test "it ends in time while the file is executed all the time" {
  copy_of_target
  follow count probed -d 2
  { while [ ! -e "$work/enough" ]; do seq 50 | xargs -P8 -I{} "$file" 3; done; } 3>&- &
  storm=$!
  ends_with_test $storm
  local deadline=$((SECONDS + 60)) in_time=true
  while kill -0 $watcher 2>/dev/null; do
    ((SECONDS < deadline)) || { in_time=false; break; }
    nap 0.05
  done
  touch "$work/enough"
  wait $storm
  $in_time
  wait $watcher
  [ "$(field 'r[-1]["type"]')" = files_detached ]
}

# A folder as the root of programs, with what $file needs.
make_root() {
  local each
  mkdir -p "$work/root"
  for each in $(ldd "$1" | grep -oE '/[^ ]+'); do
    mkdir -p "$work/root$(dirname "$each")"
    cp "$each" "$work/root$each"
  done
}

@test "in user and PID namespaces, in a chroot, statically linked" {
  copy_of_target
  unshare -rpf true 2>/dev/null || skip "cannot unshare users and processes here"
  chmod 666 "$TALLY"
  make_root "$file"
  cp "$TARGETS/ruled_static" "$work/static"
  follow count probed --all "$work/static"
  unshare -rpf "$file" 4
  unshare -r "$file" 4
  ln "$file" "$work/root/ruled"
  ln "$TALLY" "$work/root/tally"
  TALLY=/tally chroot "$work/root" /ruled 4
  # Its interpreter has a loader of its own.
  printf '#!/ruled 4\n' >"$work/root/script"
  chmod 755 "$work/root/script"
  TALLY=/tally chroot "$work/root" /script
  "$work/static" 4
  end_watch
  [ "$(processes)" -eq 5 ]
  [ "$(field 'sum(x["hits"] for x in r if x["type"] == "count" and x["final"])')" -eq 35 ] ||
    [ "$(detached late)" -gt 0 ]
  [ "$(detached processes)" -eq 5 ]
}

@test "in an overlay" {
  copy_of_target
  mkdir "$work/upper" "$work/lower" "$work/merged"
  mv "$file" "$work/lower/"
  # pinprick has a mount namespace of its own, so the mounts end with it.
  cat >"$work/mounts" <<MOUNTS
#!/bin/sh
set -e
mount -t tmpfs none "$work/upper"
mkdir "$work/upper/files" "$work/upper/work"
mount -t overlay none "$work/merged" \
  -o "lowerdir=$work/lower,upperdir=$work/upper/files,workdir=$work/upper/work"
exec "\$@"
MOUNTS
  printf '#!/bin/sh\nexec unshare -m "%s" "%s" "$@"\n' "$work/mounts" "$PINPRICK" >"$work/inside"
  chmod 755 "$work/mounts" "$work/inside"
  unshare -m "$work/mounts" true 2>/dev/null || skip "cannot mount an overlay here"
  file=$work/merged/ruled
  PINPRICK=$work/inside follow count probed
  nsenter -t $watcher -m "$file" 4
  nsenter -t $watcher -m "$file" 4
  end_watch
  [ "$(told)" -eq 14 ]
  [ "$(hits probed)" -eq 14 ]
}

@test "a setuid program keeps its rights" {
  copy_of_target
  become_nobody "$PINPRICK"
  chmod 4755 "$file"
  chmod 600 "$TALLY"
  follow count probed
  # It can write the file by its effective user only.
  "${as_nobody[@]}" "$file" 4
  end_watch
  [ "$(told)" -eq 7 ]
  [ "$(hits probed)" -eq 7 ]
}

@test "the C library, while a shell runs many commands" {
  # A copy, as others use the machine's.
  copy_of_target
  make_root /bin/sh
  cp /bin/sh "$work/root/sh"
  ln "$file" "$work/root/ruled"
  ln "$TALLY" "$work/root/tally"
  echo 'i=0; while [ $i -lt 40 ]; do /ruled 3; i=$((i + 1)); done' >"$work/root/script"
  file=$(find "$work/root" -name libc.so.6 -print -quit)
  [ -n "$file" ] || skip "there is no libc.so.6"
  follow count getenv
  TALLY=/tally chroot "$work/root" /sh /script
  end_watch
  # ruled calls it once, the loader and the shell may call it.
  [ "$(processes)" -eq 40 ]
  [ "$(hits getenv)" -ge 40 ]
  [ "$(detached processes)" -eq 41 ]
  [ "$(detached late)" -eq 0 ]
}

@test "--cgroup: the processes of this one, or of none" {
  copy_of_target
  local own
  own=$(cut -d: -f3- /proc/self/cgroup | sort | tail -n 1)
  follow count probed --cgroup "$own"
  "$file" 5
  end_watch
  [ "$(hits probed)" -eq 8 ]
  follow count probed --cgroup /no/such
  "$file" 5
  end_watch
  [ "$(detached processes)" -eq 0 ]
}

@test "the kernel's uprobe on the same file counts the same calls" {
  copy_of_target
  local at
  # Another instruction of the function, at which each call passes once.
  at=$(objdump -d --disassemble=probed "$file" | awk '$NF == "ret" { sub(":", "", $1); print $1 }')
  [[ "$at" =~ ^[0-9a-f]+$ ]] || skip "objdump shows no single return in the function"
  follow count probed
  mkfifo "$work/stop"
  "$TARGETS/file_uprobe" "$file" "$at" <"$work/stop" >"$work/kernel" 3>&- &
  kernel=$!
  ends_with_test $kernel
  exec 8>"$work/stop"
  patiently test -s "$work/kernel"
  if ! grep -q ready "$work/kernel"; then
    end_watch
    skip "$(head -n 1 "$work/kernel")"
  fi
  seq 200 | xargs -P8 -I{} "$file" 5
  "$file" fd "$file"
  "$file" thread "$file"
  "$file" fail "$file"
  sh -c "'$file' 2; '$file' 3 & wait"
  echo >&8
  wait $kernel
  end_watch
  [ "$(tail -n 1 "$work/kernel")" -eq "$(told)" ]
  [ "$(hits probed)" -eq "$(told)" ]
  exec 8>&-
}

@test "without root, the processes that are there are measured, and why no others" {
  copy_of_target
  become_nobody "$PINPRICK"
  chmod 755 "$file"
  chmod 666 "$TALLY"
  mkfifo "$work/one"
  chmod 666 "$work/one"
  "${as_nobody[@]}" "$file" 2 wait <"$work/one" >"$work/out1" 3>&- &
  one=$!
  ends_with_test $one
  exec 8>"$work/one"
  until_line "$work/out1" ready
  "${as_nobody[@]}" "$work/pinprick" count --no-cache --all "$file" probed >"$work/table" \
    2>"$work/errors" 3>&- 8>&- &
  watcher=$!
  ends_with_test $watcher
  until_line "$work/errors" 'in 1 process .*new ones are not followed: .*root'
  echo >&8
  wait $one
  # The only process that it can measure has ended.
  wait $watcher
  grep -qE '^ +1 .*probed' "$work/table"
  exec 8>&-
}

@test "a file that no process has, without root; options that need --all" {
  copy_of_target
  become_nobody "$PINPRICK"
  run "${as_nobody[@]}" "$work/pinprick" count --no-cache --all "$file" probed
  [ "$status" -eq 3 ]
  [[ "$output" == *"no process that can be measured has"*"not followed"*"root"* ]]
  run "$PINPRICK" count -p 1 --comm x probed
  [ "$status" -eq 2 ]
  run "$PINPRICK" count --all "$work/nothing" probed
  [ "$status" -eq 1 ]
  run "$PINPRICK" count --all "$file" no_such_function
  [ "$status" -eq 3 ]
  run "$PINPRICK" count --all "$file" probed no_such_function
  [ "$status" -eq 3 ]
  [[ "$output" == *"no function matches 'no_such_function'"* ]]
  run "$PINPRICK" count --all "$file" --all "$TARGETS/ticker" no_such_function
  [ "$status" -eq 3 ]
}
