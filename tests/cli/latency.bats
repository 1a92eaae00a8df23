# pinprick latency: from entry to return.
load helpers

calls() { field "[x['count'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$1'][0]"; }
latency_field() { field "[x['$2'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] == '$1'][0]"; }

@test "every call is in the histogram, and the totals agree" {
  start_ticker
  watch latency -p $ticker ticker:tick
  tell "tick 100000" ticked
  end_watch
  [ "$(calls tick)" -eq 100000 ]
  [ "$(field 'sum(s[1] for x in r if x["type"] == "latency" for s in x["slots"])')" -eq 100000 ]
  [ "$(latency_field tick missed)" -eq 0 ]
  no_trace $ticker
  end_ticker
}

@test "eight threads lose no call" {
  start_ticker 8
  watch latency -p $ticker ticker:tick
  tell "tick 2000000" ticked
  end_watch
  [ "$(calls tick)" -eq 2000000 ]
  no_trace $ticker
  end_ticker
}

@test "a call of 30 ms reads as 30 ms" {
  start_ticker
  watch latency -p $ticker --bits 5 ticker:nap
  # No call is longer than what has passed around it: a busy machine may wake the sleeper late.
  local before=${EPOCHREALTIME/./}
  tell "nap 30" napped
  local around=$(((${EPOCHREALTIME/./} - before) * 1000))
  end_watch
  [ "$(calls nap)" -eq 1 ]
  [ "$(field "[30e6 <= x['sum_ns'] <= $around for x in r if x['type'] == 'latency'][0]")" = True ]
  [ "$(field "[30e6 * 31 / 32 <= x['p50_ns'] <= $around * 33 / 32 for x in r if x['type'] == 'latency'][0]")" = True ]
  end_ticker
}

# blocks_of_session: 512-byte blocks that the one session's file takes.
blocks_of_session() { stat -c %b "$runtime"/pinprick/*.session; }

@test "functions that are not called take no memory for histograms" {
  start_ticker
  watch latency --allow-missing -p $ticker 'libc:*'
  local timed most
  timed=$(field '[x["armed"] for x in r if x["type"] == "armed"][0]')
  # A histogram of 8,000 bytes each would be more; 32 MB are there to begin with.
  most=$(((33 << 20) + timed * 1024))
  ((timed * 8000 * 2 > most)) || skip "libc has too few functions here"
  (($(blocks_of_session) * 512 < most))
  end_watch
  no_trace $ticker
  end_ticker
}

# start_crowd: a program with 6,000 functions, 1,000 of which it calls ten times when told their batch.
start_crowd() {
  local made=$BATS_FILE_TMPDIR
  [ -x "$made/crowd" ] || make_crowd "$made" || skip "needs a C compiler"
  TARGETS=$made start_fed crowd
}
make_crowd() {
  python3 >"$1/crowd.c" <<'PYTHON'
n = 6000
print('#include <stdio.h>')
for i in range(n):
    print(f'__attribute__((noipa)) int crowd_{i}(int x) {{ return x * 3 + {i}; }}')
print('static int (*const all[])(int) = {', ', '.join(f'crowd_{i}' for i in range(n)), '};')
print("""int main(void) {
  for (int batch; scanf("%d", &batch) == 1;) {
    for (int i = 0; i < 10000; i++)
      if (all[batch * 1000 + i % 1000](i) != i * 3 + batch * 1000 + i % 1000) puts("WRONG");
    puts("called");
    fflush(stdout);
  }
}""")
PYTHON
  cc -O1 -o "$1/crowd" "$1/crowd.c"
}

sum_of() { field "sum(x['$1'] for x in r if x.get('final') and x['type'] == 'latency')"; }

@test "thousands of functions that are called get their histograms in time, and no call is missed" {
  start_crowd
  watch latency -p $fed 'crowd:crowd_*'
  local batch before
  before=$(blocks_of_session)
  has_grown() { (($(blocks_of_session) > before)); }
  for batch in 0 1 2; do tell $batch called; done
  patiently has_grown
  for batch in 3 4 5; do tell $batch called; done
  end_watch
  [ "$(field '[x["count"] for x in r if x.get("final") and x["type"] == "latency"] == 6000 * [10]')" = True ]
  [ "$(sum_of missed)" -eq 0 ]
  no_trace $fed
  exec 7>&-
  wait $fed
}

@test "where there is no more room for histograms calls are missed, which is said, and the program goes on" {
  start_crowd
  small_folder 36m
  watch latency --fail-on-loss -p $fed 'crowd:crowd_*'
  local batch status
  for batch in 0 1 2 3 4 5; do tell $batch called; done
  end_watch && status=0 || status=$?
  [ $status -eq 5 ]
  [ "$(sum_of missed)" -gt 0 ]
  [ $(($(sum_of missed) + $(sum_of count))) -eq 60000 ]
  field '[x["message"] for x in r if x["type"] == "warning"]' | grep "$(sum_of missed) of the missed calls .* $work/runtime/pinprick had no space"
  no_trace $fed
  exec 7>&-
  wait $fed
  umount "$work/runtime"
}

@test "recursion is measured frame by frame, and beyond the last slot it is counted as missed" {
  start_ticker
  watch latency -p $ticker --slots 100 ticker:recurse
  tell "recurse 49" recursed
  tell "recurse 149" recursed
  end_watch
  local all=$((50 + 150))
  [ $(($(calls recurse) + $(latency_field recurse missed))) -eq $all ]
  [ "$(latency_field recurse missed)" -gt 0 ]
  no_trace $ticker
  end_ticker
}

@test "a recursion that gets 40,000 deep before the slots could be added to has a slot for each frame" {
  start_ticker
  watch latency -p $ticker ticker:recurse
  tell "recurse 39999" recursed
  end_watch
  [ "$(calls recurse)" -eq 40000 ]
  [ "$(latency_field recurse missed)" -eq 0 ]
  no_trace $ticker
  end_ticker
}

@test "--fail-on-loss tells of missed calls by its status" {
  start_ticker
  watch latency -p $ticker --slots 10 --fail-on-loss ticker:recurse
  tell "recurse 1000" recursed
  local status=0
  end_watch || status=$?
  [ "$status" -eq 5 ]
  end_ticker
}

@test "a call in flight at the end returns to its caller as if nothing had been" {
  start_ticker 2
  watch latency -p $ticker 'libc:read' 'ticker:tick'
  # The program waits in read() for its next command, and only now goes through the probe.
  tell "tick 10" ticked
  until_line /proc/$ticker/task/$ticker/syscall '^0 '
  end_watch
  [ "$(field '[x["released"] for x in r if x["type"] == "detached"][0]')" -eq 1 ]
  no_trace $ticker
  tell "tick 10" ticked
  watch latency -p $ticker 'ticker:recurse' 'libc:nanosleep' 'ticker:nap'
  echo "nap 2000" >&7
  until_line /proc/$ticker/task/$ticker/wchan 'nanosleep'
  end_watch
  [ "$(field '[x["released"] for x in r if x["type"] == "detached"][0]')" -eq 2 ]
  no_trace $ticker
  until_line "$work/out" napped
  tell "tick 10" ticked
  end_ticker
}

@test "what does not return as it was called is refused, by name and by what it is" {
  start_ticker
  watch latency --ends=slots -p $ticker --allow-missing -d 0.01 'libc:setjmp' 'libc:_setjmp' 'libc:__sigsetjmp' \
    'libc:vfork' 'libc:getcontext' 'libc:swapcontext' 'libc:dlsym' 'libc:clone' 'ticker:_start' \
    'ticker:tick'
  wait $watcher
  [ "$(field 'len([x for x in r if x["type"] == "latency"])')" -eq 1 ]
  [ "$(field '[x["reason"] for x in r if x["type"] == "skipped" and x["function"] == "vfork"][0]')" = returns_otherwise ]
  [ "$(field '[x["reason"] for x in r if x["type"] == "skipped" and x["function"] == "_start"][0]')" = not_called ]
  end_ticker
}

@test "calls that longjmp leaves keep their slots, and there are others for those that come" {
  start_ticker
  watch latency -i 0.05 -p $ticker ticker:leap ticker:tick
  tell "leap 10000" leapt
  measured() {
    tell "tick 1" ticked
    [ "$(field 'sum(x["count"] for x in r if x["type"] == "latency" and x["function"] == "tick")')" -gt 0 ]
  }
  patiently measured
  end_watch
  [ "$(field '[x["calls_abandoned"] > 4096 and not x["memory_left"] and x["kept_slot_bytes"] > 0 for x in r if x["type"] == "detached"]')" = '[True]' ]
  text_is_original $ticker
  tell "tick 100" ticked
  end_ticker
}

@test "no call is left by longjmp in the midst of its entry or return, in status" {
  # Stepping restarts a sequence (rseq) for ever.
  export GLIBC_TUNABLES=glibc.pthread.rseq=0
  start_ticker
  unset GLIBC_TUNABLES
  watch latency -p "$ticker" ticker:recurse
  # Stops the program at each instruction of a timed call, and looks.
  python3 - "$ticker" "$PINPRICK" "$work/in" <<'PYTHON'
import ctypes, json, os, re, signal, subprocess, sys
pid, pinprick, pipe = int(sys.argv[1]), sys.argv[2], sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_SINGLESTEP, PTRACE_GETREGS, PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = \
    9, 12, 0x4206, 0x4207, 17

def request(which, data=None):
    if libc.ptrace(which, pid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f'ptrace {which}')

def instruction():
    registers = (ctypes.c_uint64 * 27)()
    request(PTRACE_GETREGS, ctypes.addressof(registers))
    return registers[16]

def is_ours(address):
    return any(begin <= address < end for begin, end in ours)

ours = []
for line in open(f'/proc/{pid}/maps'):
    m = re.match(r'(\w+)-(\w+) r-xp \w+ 00:00 0 *$', line)
    if m:
        ours.append((int(m[1], 16), int(m[2], 16)))
assert ours
request(PTRACE_SEIZE)
request(PTRACE_INTERRUPT)
os.waitpid(pid, 0x40000000)
with open(pipe, 'wb', buffering=0) as commands:
    commands.write(b'recurse 2\n')
seen = wrong = entered = 0
was_ours = False
for step in range(60000):
    request(PTRACE_SINGLESTEP)
    os.waitpid(pid, 0x40000000)
    now = is_ours(instruction())
    if now:
        seen += 1
        out = subprocess.run([pinprick, 'status', '-p', str(pid), '--json'], capture_output=True)
        wrong += json.loads(out.stdout)['slots']['abandoned'] != 0
    entered += now and not was_ours
    was_ours = now
    if entered == 6:
        break
request(PTRACE_DETACH)
assert entered == 6 and seen > 60, (entered, seen)
assert wrong == 0, (wrong, seen)
PYTHON
  until_line "$work/out" '^recurse'
  end_watch
  end_ticker
}

@test "self time is what the timed calls within a call leave of it" {
  start_fed called
  watch latency --self -p $fed called:outer called:inner
  tell "call 10000" called
  end_watch
  [ "$(calls outer)" -eq 20000 ]
  [ "$(calls inner)" -eq 40000 ]
  # inner() makes no call. Half of its calls lie in outer().
  [ "$(field '[abs(x["self_ns"] - x["sum_ns"]) < 1 for x in r if x["type"] == "latency" and x["function"] == "inner"][0]')" = True ]
  [ "$(field '[0 < x["self_ns"] < x["sum_ns"] for x in r if x["type"] == "latency" and x["function"] == "outer"][0]')" = True ]
  [ "$(field '[sum(s[1] for s in x["self_slots"]) for x in r if x["type"] == "latency" and x["function"] == "outer"][0]')" -eq 20000 ]
  [ "$(field '[x["armed"] for x in r if x["type"] == "armed"][0]')" -eq 2 ]
  no_trace $fed
  # Of one function alone, all time is its own.
  watch latency --self -p $fed called:outer
  tell "call 1000" called
  end_watch
  [ "$(field '[abs(x["self_ns"] - x["sum_ns"]) < 1 for x in r if x["type"] == "latency"][0]')" = True ]
  end_fed
}

@test "a table by self time comes with --self, and contradictions are refused" {
  start_fed called
  "$PINPRICK" latency --self -p $fed -o "$work/table" called:outer called:inner 2>"$work/errors" 3>&- 7>&- &
  local pinprick=$!
  ends_with_test $pinprick
  until_line "$work/errors" '^armed 2 functions'
  tell "call 10000" called
  kill -INT $pinprick
  wait $pinprick
  grep -qE '^ +calls +calls/s +p50 +p99 +max +total +self +self%  function$' "$work/table"
  grep -qE '^ +20,000 .*%  outer$' "$work/table"
  run "$PINPRICK" latency --self -p $fed called:outer..called:inner
  [ "$status" -eq 2 ]
  run "$PINPRICK" latency --self --ends=exits -p $fed called:outer
  [ "$status" -eq 2 ]
  run "$PINPRICK" top --self -p $fed
  [ "$status" -eq 2 ]
  end_fed
}
