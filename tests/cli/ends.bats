# How processes end while they are measured: what is said, the figures, and the exit status.
load helpers

ends() { python3 "$BATS_TEST_DIRNAME/ends.py" "$TARGETS/$1" "${@:2}"; }

@test "a program that ends has ended, whatever its threads were doing" {
  ends ends return _exit exit-in-thread leaderless
}

@test "a program that is killed has ended" {
  ends ends abort signal9 signal11 signal15
}

@test "a process that executes another program runs another program" {
  ends ends exec exec-in-thread
}

@test "a program that takes long to give its memory back has ended" {
  [ -x "$TARGETS/ends_asan" ] || skip "there is no gcc with AddressSanitizer"
  ends ends_asan return leak leaderless
}

start_exits() {
  start_fed exits
  until_line "$work/out" '^ready'
}

# losses: of the calls of all functions: left by longjmp, ended with their thread, left by exception
losses() {
  field "tuple(sum(x[k] for x in r if x['type'] == 'latency' and x['final']) for k in ('abandoned', 'ended', 'unwound'))"
}

# What is left in memory: (kept for slots, kept for stubs)
kept() { field "[(x['kept_slot_bytes'], x['kept_stub_bytes'], x['memory_left']) for x in r if x['type'] == 'detached'][0]"; }

@test "a call in which its thread ended was not left by longjmp, and nothing stays mapped for it" {
  start_exits
  for how in exit pthread_exit cancel; do
    for times in 1 2; do  # before and after libgcc_s is loaded
      watch latency -p "$fed" exits:leaves exits:leave
      tell "$how 100" ended
      end_watch
      [ "$(field "sum(x['ended'] + x['unwound'] for x in r if x['type'] == 'latency' and x['final'])")" -eq 200 ]
      [ "$(losses | cut -d, -f1)" = "(0" ]
      [ "$(kept)" = "(0, 0, False)" ]
    done
  done
  no_trace "$fed"
  if grep -E '^[0-9a-f-]+ r-xp 00000000 00:00 0 *$' "/proc/$fed/maps"; then return 1; fi
  end_fed
}

@test "so it is with thousands of threads, whose slots are used again" {
  start_exits
  watch latency -p "$fed" exits:leaves exits:leave
  tell "exit 3000" ended
  end_watch
  [ "$(losses)" = "(0, 6000, 0)" ]
  [ "$(kept)" = "(0, 0, False)" ]
  end_fed
}

@test "so it is with all functions of the program's libraries" {
  start_exits
  for how in return exit pthread_exit; do
    watch latency -p "$fed" '*'
    tell "$how 50" ended
    end_watch
    cat "$work/errors"
    [ "$(field "[x['abandoned'] for x in r if x['type'] == 'latency' and x['final'] and x['function'] in ('start_thread', 'leaves', 'leave')]")" = "[0, 0, 0]" ]
  done
  # libgcc's unwinder leaves some of pthread_exit()'s own functions by longjmp.
  watch latency -p "$fed" '*'
  tell "exit 50" ended
  end_watch
  [ "$(losses | cut -d, -f1)" = "(0" ]
  [ "$(kept)" = "(0, 0, False)" ]
  no_trace "$fed"
  end_fed
}

@test "a call of a thread that lives returns, whichever thread had its stack before" {
  start_exits
  watch latency -p "$fed" exits:leaves exits:stays exits:leave exits:stay
  tell "exit 20" ended
  # The kernel tells when a thread was started in hundredths of a second.
  nap 0.03
  tell "keep 3" ended
  end_watch
  [ "$(losses)" = "(0, 40, 0)" ]
  [ "$(field "[x['released'] for x in r if x['type'] == 'detached'][0]")" -eq 6 ]
  tell end ended
  no_trace "$fed"
  end_fed
}

@test "a thread's first function returns after the probes have gone, and its call is not counted as ended" {
  start_exits
  watch latency -p "$fed" exits:stays_first
  tell "clone 1" ended
  end_watch
  [ "$(losses)" = "(0, 0, 0)" ]
  [ "$(field "[x['released'] for x in r if x['type'] == 'detached'][0]")" -eq 1 ]
  tell end ended
  tell "return 1" ended
  no_trace "$fed"
  end_fed
}

@test "what stays for calls that longjmp left is not taken for generated code" {
  start_fed jumper 100 lines
  local round
  for round in 1 2 3; do
    watch latency -p "$fed" jumper:leap jumper:arrives jumper:deep
    echo >&7
    until_line "$work/out" "^leap ${round}00$"
    end_watch
    [ "$(field "[(x['kept_slot_bytes'] > 0, x['kept_stub_bytes'], x['memory_left']) for x in r if x['type'] == 'detached'][0]")" = "(True, 0, False)" ]
    [ "$(losses | cut -d, -f2)" = " 0" ]
  done
  text_is_original "$fed"
  end_fed
}
