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
  ends ends_asan return leak exit-in-thread leaderless
}
