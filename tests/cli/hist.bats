# pinprick hist, on programs whose arguments and registers are known.
load helpers

# slots_of FUNCTION VALUE: what the last report says of it, as JSON.
slots_of() {
  field "[x['slots'] for x in r if x['type'] == 'hist' and x['final']
          and x['function'] == '$1' and x['value'] == '$2'][0]"
}

@test "each write of dd is recorded once, with its size" {
  "$PINPRICK" hist --json -o "$work/records" 'libc:write $arg3' -- \
    dd if=/dev/zero of=/dev/null bs=4096 count=1000 status=none
  [ "$(slots_of write '$arg3')" = "[[4096, 1000, 4096]]" ]
}

# The numbers of tests/targets/registers.c, of which each has a slot of its own with 5 bits.
@test "every register is what the program has in it, at an entry and within a function" {
  local where register
  local -A values=([rax]=1000 [rcx]=2000 [rdx]=3000 [rbx]=4000 [rbp]=5000 [rsi]=6000 [rdi]=7000
    [r8]=8000 [r9]=9000 [r10]=10000 [r11]=11000 [r12]=12000 [r13]=13000 [r14]=14000)
  for where in here here+0xa here+0xd; do
    for register in "${!values[@]}"; do
      "$PINPRICK" hist --json --bits 5 -o "$work/records" "registers:$where %$register" -- \
        "$TARGETS/registers"
      field "[[x['count'], x['missed'], x['sum']] for x in r if x['type'] == 'hist']" \
        >"$work/figures"
      echo "$where $register: $(cat "$work/figures")"
      [ "$(cat "$work/figures")" = "[[1000, 0, ${values[$register]}000.0]]" ]
    done
  done
}

@test "a type takes the lower bits only" {
  local type
  # 0x1122334455667788
  local -A values=([u8]=$((0x88)) [u16]=$((0x7788)) [u32]=$((0x55667788)))
  for type in "${!values[@]}"; do
    "$PINPRICK" hist --json --bits 5 -o "$work/records" "registers:here %r15:$type" -- \
      "$TARGETS/registers"
    local sum
    sum=$(field "[x['sum'] for x in r if x['type'] == 'hist'][0]")
    echo "$type: $sum"
    # Large values are summed up without their lowest bits.
    evaluate "import sys
got, wanted = float(sys.argv[1]), 1000 * int(sys.argv[2])
sys.exit(not wanted * (1 - 1e-5) <= got <= wanted)" "$sum" "${values[$type]}"
  done
}

@test "the stack pointer is the program's, not a stub's" {
  local where
  for where in at_known_stack at_known_stack+0x5; do
    "$PINPRICK" hist --json --bits 5 -o "$work/records" "registers:$where %rsp:u16" -- \
      "$TARGETS/registers"
    field "[[x['count'], x['sum']] for x in r if x['type'] == 'hist']" >"$work/figures"
    cat "$work/figures"
    # 0x1238 below a multiple of 0x10000.
    [ "$(cat "$work/figures")" = "[[1000, $((0xedc8))000.0]]" ]
  done
}

@test "eight threads lose no value, and nothing is left in the program" {
  start_ticker 8
  watch hist -p "$ticker" 'ticker:tick $arg1:u8'
  tell "tick 8000000" ticked
  end_watch
  [ "$(field "sum(x['count'] for x in r if x['type'] == 'hist' and x['final'])")" -eq 8000000 ]
  no_trace "$ticker"
  end_ticker
}

@test "a program without rseq (static, musl) records each value, too" {
  for TICKER in ticker_static ticker_musl; do
    [ -x "$TARGETS/$TICKER" ] || continue
    rm -f "$work/in"
    start_ticker 4
    watch hist -p "$ticker" "$TICKER:tick \$arg1"
    tell "tick 400000" ticked
    end_watch
    [ "$(field "sum(x['count'] for x in r if x['type'] == 'hist' and x['final'])")" -eq 400000 ]
    no_trace "$ticker"
    end_ticker
  done
}

# Their functions can be counted only where no stack may be used, and have arguments elsewhere.
@test "functions of a Go program are left out, with the reason" {
  objcopy --add-section .gopclntab="$TARGETS/ticker" "$TARGETS/registers" "$work/of_go"
  "$PINPRICK" count --json -o "$work/records" 'of_go:checks_stack' -- "$work/of_go"
  [ "$(field "[x['armed'] for x in r if x['type'] == 'armed']")" = "[1]" ]
  run "$PINPRICK" hist --json -o "$work/records" 'of_go:checks_stack $arg1' -- "$work/of_go"
  echo "$output"
  [ "$status" -eq 125 ]
  [ "$(field "[x['reason'] for x in r if x['type'] == 'skipped']")" = "['goroutine']" ]
}

@test "-i reports the values since the last report" {
  start_ticker
  watch hist -p "$ticker" -i 0.1 'ticker:tick $arg1'
  reported() { field 'sum(x["count"] for x in r if x["type"] == "hist" and not x["final"])'; }
  have_reported() { [ "$(reported 2>/dev/null)" = "$1" ]; }
  tell "tick 1000" ticked
  patiently have_reported 1000
  tell "tick 500" ticked
  patiently have_reported 1500
  end_watch
  end_ticker
}

@test "a killed pinprick's values are shown by status, and detach removes the probe" {
  start_ticker
  watch hist -p "$ticker" 'ticker:tick $arg1'
  tell "tick 1000" ticked
  kill -KILL "$watcher"
  wait "$watcher" || true
  tell "tick 234" ticked
  "$PINPRICK" status -p "$ticker" >"$work/status"
  cat "$work/status"
  [ "$(grep -c '^slots:' "$work/status")" -eq 0 ] # values take none
  grep -q '^tick \$arg1 ' "$work/status"
  grep -q 'n=1,234$' "$work/status"
  "$PINPRICK" detach -p "$ticker"
  no_trace "$ticker"
  end_ticker
}

@test "what is no value is a usage error that says what is" {
  local spec words
  while IFS='|' read -r spec words; do
    run "$PINPRICK" hist -p $$ "$spec"
    echo "$spec: $output"
    [ "$status" -eq 2 ]
    [[ $output == *"$words"* ]]
    [ "${#lines[@]}" -eq 1 ]
  done <<'END'
libc:write|it names no value to record; write 'libc:write $arg3', or %rdx
libc:write $arg0|'$arg0' is not an argument; these are $arg1, $arg2 and so on
libc:write %edx|'%edx' is not a 64-bit register
libc:write $arg1 $arg3|a hit records one value; leave out $arg3
libc:write %rdi  %rsi $arg3|a hit records one value; leave out %rsi $arg3
libc:write $arg3:int|not one of the types u8 to u64 and s8 to s64
libc:write+0x4 $arg3|at an offset, name the register
END
}

@test "two values of one function are recorded, each hit in both, and nothing is left there" {
  start_ticker
  watch hist -p "$ticker" 'ticker:tick $arg1' 'ticker:ti* $arg1*2+1'
  tell "tick 100000" ticked
  end_watch
  [ "$(field "sorted((x['value'], x['count']) for x in r if x['type'] == 'hist' and x['final']
                     and x['function'] == 'tick')")" = "[('\$arg1', 100000), ('\$arg1*2+1', 100000)]" ]
  no_trace "$ticker"
  end_ticker
}
