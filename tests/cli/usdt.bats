# SDT points of programs that were built with them.
load helpers

setup_points() { start_fed points; }

# work_off N: the program works off N orders, and prints its line.
work_off() { answer "$1"; }

# semaphore: that of shop:price, as the program has it.
semaphore() { answer 0 | sed 's/.*semaphore //'; }

semaphore_is() { [ "$(semaphore)" = "$1" ]; }

list_rows() { "$PINPRICK" list "$@" | awk '{print $2, $4}' | sort; }

@test "list names every site of a file's points, and --args where the arguments are" {
  list_rows -f "$TARGETS/points" 'usdt:*' >"$work/rows"
  cat "$work/rows"
  diff - "$work/rows" <<'END'
points shop:begin
points shop:end
points shop:forms
points shop:order
points shop:order
points shop:price
points till:order
END
  "$PINPRICK" list --json --args -f "$TARGETS/points" 'usdt:*' >"$work/records"
  local address arguments
  readelf -nW "$TARGETS/points" | sed -n 's/^    Location: 0x\([0-9a-f]*\),.*/\1/p' |
    while read -r address; do echo $((16#$address)); done | sort -n >"$work/addresses"
  readelf -nW "$TARGETS/points" | sed -n 's/^    Arguments: //p' | sort >"$work/arguments"
  [ "$(field "'\n'.join(str(a) for a in sorted(x['address'] for x in r))")" = \
    "$(cat "$work/addresses")" ]
  [ "$(field "'\n'.join(sorted(x['arguments'] for x in r))" | LC_ALL=C sort)" = \
    "$(LC_ALL=C sort "$work/arguments")" ]
}

@test "a pattern selects by object, provider and name, with * and ? in each" {
  [ "$(list_rows -f "$TARGETS/points" 'usdt:till:*')" = "points till:order" ]
  [ "$(list_rows -f "$TARGETS/points" 'usdt:till')" = "points till:order" ]
  [ "$(list_rows -f "$TARGETS/points" 'usdt:points:t?ll:o*r')" = "points till:order" ]
  [ "$(list_rows -f "$TARGETS/points" 'usdt:*:order' -x 'usdt:shop:*')" = "points till:order" ]
  [ "$(list_rows -f "$TARGETS/points" 'usdt:shop:order' -x 'usdt:libc:*:*' | wc -l)" -eq 2 ]
  run "$PINPRICK" list -f "$TARGETS/points" 'usdt:libc:shop:order'
  [ "$status" -eq 3 ]
}

@test "what is no pattern of points, or matches none, is an error that says what to write" {
  run "$PINPRICK" list -f "$TARGETS/points" 'usdt:nix:*'
  [ "$status" -eq 3 ]
  [[ "$output" == *"no SDT point matches 'usdt:nix:*'; "* ]]
  local pattern
  for pattern in usdt: usdt:a: usdt:a::b usdt:a:b:c:d; do
    run "$PINPRICK" list -f "$TARGETS/points" "$pattern"
    echo "$pattern: $output"
    [ "$status" -ne 0 ]
  done
  run "$PINPRICK" list -f "$TARGETS/points" usdt:a:b:c:d
  [ "$status" -eq 2 ]
  [[ "$output" == *"write usdt:[OBJECT:]PROVIDER:NAME"* ]]
  run "$PINPRICK" list -r -f "$TARGETS/points" 'usdt:shop:.*'
  [ "$status" -eq 2 ]
  [[ "$output" == *"leave out -r"* ]]
}

@test "all sites of a point are one row, and no hit is lost" {
  setup_points
  watch count -p $fed --idle 'usdt:*:order' 'usdt:shop:*'
  work_off 1000
  work_off 281
  end_watch
  cat "$work/records"
  [ "$(field "sorted((x['function'], x['hits']) for x in r if x['type'] == 'count' and x['final'])")" = \
    "[('shop:begin', 1281), ('shop:end', 1281), ('shop:forms', 21), ('shop:order', 1281), ('shop:price', 1281), ('till:order', 1281)]" ]
  no_trace $fed
}

@test "status has one row for a point, too" {
  setup_points
  watch count -p $fed 'usdt:shop:order'
  work_off 10
  "$PINPRICK" status -p $fed --json >"$work/status"
  cat "$work/status"
  [ "$(grep -c '"shop:order"' "$work/status")" -eq 1 ]
  grep '"shop:order"' "$work/status" | grep -q '"hits":10\b'
  end_watch
}

@test "a span leads from one point to another" {
  setup_points
  watch latency -p $fed 'usdt:shop:begin..usdt:shop:end'
  work_off 500
  end_watch
  [ "$(field "[x['count'] for x in r if x['type'] == 'latency' and x['final']]")" = "[500]" ]
}

@test "all sites of a point start a span" {
  setup_points
  watch latency -p $fed 'usdt:shop:order..usdt:shop:end'
  work_off 500
  end_watch
  [ "$(field "[(x['count'], x['repeated_starts'], x['unmatched_ends']) for x in r if x['type'] == 'latency' and x['final']]")" = "[(500, 0, 0)]" ]
}

@test "all sites of a point end a span" {
  setup_points
  watch latency -p $fed 'usdt:shop:begin..usdt:shop:order'
  work_off 500
  end_watch
  [ "$(field "[(x['count'], x['repeated_starts'], x['unmatched_ends']) for x in r if x['type'] == 'latency' and x['final']]")" = "[(500, 0, 0)]" ]
}

@test "a point of a span is one point" {
  setup_points
  run "$PINPRICK" latency -p $fed -d 1 'usdt:*:order..usdt:shop:end'
  [ "$status" -eq 2 ]
  # In the order in which the compiler has put them.
  [[ "$output" == *"'usdt:*:order' matches 2 places, "* ]]
  [[ "$output" == *"usdt:points:shop:order"* && "$output" == *"usdt:points:till:order"* ]]
}

@test "hist records an argument in the register that each site has it in" {
  setup_points
  watch hist -p $fed --bits 5 'usdt:shop:order $arg1' 'usdt:shop:price $arg1'
  work_off 32
  end_watch
  cat "$work/records"
  # 0 + 1 + ... + 31
  [ "$(field "sorted((x['function'], x['count'], x['sum']) for x in r if x['type'] == 'hist' and x['final'])")" = \
    "[('shop:order', 32, 496.0), ('shop:price', 32, 4960.0)]" ]
}

# Without symbols nothing says where a variable is.
@test "hist refuses an argument in a variable that the program does not name" {
  cp "$TARGETS/points" "$work/points"
  strip "$work/points"
  TARGETS=$work start_fed points
  run "$PINPRICK" hist -p $fed -d 0.1 'usdt:shop:forms $arg6'
  echo "$output"
  [[ "$output" == *"that argument is in a place that pinprick does not read"* ]]
  [ "$status" -ne 0 ]
  watch hist -p $fed 'usdt:shop:forms $arg4'
  end_watch
  no_trace $fed
}

@test "hist takes as many bytes as the operand has" {
  setup_points
  watch hist -p $fed 'usdt:shop:order $arg2'
  work_off 400
  end_watch
  [ "$(field "[x['slots'] for x in r if x['type'] == 'hist' and x['final']][0]")" = \
    "[[0, 100, 0], [1, 100, 1], [2, 100, 2], [3, 100, 3]]" ]
}

# Orders have the numbers 0 to 31 as their first argument, and 0 to 3 by turns as their second one.
@test "an argument of an SDT point is compared where each of its sites has it" {
  setup_points
  watch count -p $fed 'usdt:shop:order if $arg1<7' 'usdt:shop:order if $arg2==3 || $arg1 in {0,30..31}' \
    'usdt:shop:order if $arg1>=32'
  work_off 32
  end_watch
  [ "$(field "sorted((x['hits'], x['if']) for x in r if x['type'] == 'count' and x['final'])")" = \
    "[(0, '\$arg1>=32'), (7, '\$arg1<7'), (10, '\$arg2==3 || \$arg1 in {0,30..31}')]" ]
}

# values ARGUMENT: of shop:forms, for the 10 of 640 orders that reach it: how many, and their sum.
values() {
  watch hist -p $fed --bits 5 "usdt:shop:forms \$arg$1"
  work_off 640 >"$work/answered"
  end_watch
  field "[(x['count'], x['sum']) for x in r if x['type'] == 'hist' and x['final']]"
}

@test "hist records constants, and what lies in memory, also of variables and on the stack" {
  setup_points
  # 0, 64, ... 576: a double.
  [ "$(values 3)" = "[(10, 2880.0)]" ]
  [ "$(values 4)" = "[(10, 70.0)]" ]
  [ "$(values 5)" = "[(10, 1000.0)]" ]
  [ "$(values 6)" = "[(10, 1010.0)]" ]
  [ "$(values 8)" = "[(10, 1020.0)]" ]
  # 3200, 3264, ... 3776, plus 1 each.
  [ "$(values 7)" = "[(10, 34890.0)]" ]
  no_trace $fed
}

@test "hist refuses arguments that are not there, and says so" {
  setup_points
  run "$PINPRICK" hist -p $fed -d 0.1 'usdt:shop:forms $arg9'
  [[ "$output" == *"it has fewer arguments"* ]]
  run "$PINPRICK" hist -p $fed -d 0.1 'usdt:shop:forms $arg13'
  [ "$status" -eq 2 ]
  no_trace $fed
}

@test "a semaphore is raised while probes are in, and by each owner" {
  setup_points
  [ "$(work_off 5)" = "orders 5 priced 0 semaphore 0" ]
  watch count -p $fed 'usdt:shop:price' 'usdt:shop:order'
  local first=$watcher
  cp "$work/records" "$work/first"
  [ "$(work_off 5)" = "orders 10 priced 5 semaphore 1" ]
  watch latency -p $fed 'usdt:shop:price..usdt:shop:end'
  semaphore_is 2
  kill -INT $first
  wait $first
  semaphore_is 1
  end_watch
  [ "$(work_off 5)" = "orders 15 priced 5 semaphore 0" ]
  no_trace $fed
}

@test "a semaphore is lowered in a program that was renamed" {
  cp "$TARGETS/points" "$work/app"
  TARGETS=$work start_fed app
  watch count -p $fed 'usdt:shop:price'
  semaphore_is 1
  mv "$work/app" "$work/app.old"
  end_watch
  semaphore_is 0
  no_trace $fed
}

@test "a semaphore stays as it is where no point of it is probed" {
  setup_points
  watch count -p $fed 'usdt:shop:order' take
  semaphore_is 0
  end_watch
}

@test "after the controller was killed, a detach lowers the semaphore once" {
  setup_points
  watch count -p $fed 'usdt:shop:price'
  semaphore_is 1
  kill -KILL "$watcher"
  wait "$watcher" || true
  semaphore_is 1
  "$PINPRICK" detach -p $fed
  semaphore_is 0
  "$PINPRICK" detach -p $fed || true
  semaphore_is 0
  no_trace $fed
}

@test "a semaphore that the program has cleared itself is not lowered below zero" {
  setup_points
  watch count -p $fed 'usdt:shop:price'
  semaphore_is 1
  local address
  address=$(readelf -sW "$TARGETS/points" | awk '$8 == "shop_price_semaphore" {print $2}')
  python3 - $fed "$address" <<'END'
import sys
pid, address = sys.argv[1], int(sys.argv[2], 16)
base = min(int(line.split('-')[0], 16) for line in open(f'/proc/{pid}/maps') if line.rstrip().endswith('/points'))
with open(f'/proc/{pid}/mem', 'r+b') as memory:
    memory.seek(base + address)
    memory.write(b'\0\0')
END
  semaphore_is 0
  end_watch
  semaphore_is 0
}

@test "a kept statistic keeps its semaphore raised until it is removed" {
  setup_points
  "$PINPRICK" kstats -p $fed trace pricing start usdt:shop:price end usdt:shop:end
  semaphore_is 1
  work_off 7
  [ "$("$PINPRICK" kstats -p $fed show pricing | awk '/CPUS/ { n += $6 } END { print n }')" -eq 7 ]
  "$PINPRICK" kstats -p $fed STOP pricing
  semaphore_is 1
  "$PINPRICK" kstats -p $fed remove pricing
  semaphore_is 0
  no_trace $fed
}

@test "libstdc++ throws 10,000 exceptions, and each is counted" {
  ldconfig -p | grep -q 'libstdc++' || skip "no libstdc++ here"
  local library
  library=$(ldd "$TARGETS/throws" | awk '/libstdc/ {print $3}')
  readelf -n "$library" | grep -q libstdcxx || skip "libstdc++ was built without SDT points"
  "$PINPRICK" count --json -o "$work/records" 'usdt:libstdcxx:throw' 'usdt:libstdcxx:catch' \
    'usdt:libstdcxx:rethrow' -a -- "$TARGETS/throws" 10000
  [ "$(field "sorted((x['function'], x['hits']) for x in r if x['type'] == 'count' and x['final'])")" = \
    "[('libstdcxx:catch', 12500), ('libstdcxx:rethrow', 2500), ('libstdcxx:throw', 10000)]" ]
}

# Python 3.11 itself reaches function__entry for the first frame only, so it is its returns that are
# compared.
@test "python's function returns are those that python itself counts" {
  local python=/usr/bin/python3.11
  [ -x $python ] && readelf -n $python | grep -q function__return ||
    skip "no python3.11 with SDT points here"
  cat >"$work/calls.py" <<'END'
import os, sys
returns = 0
def note(frame, event, argument):
    global returns
    returns += event == 'return'
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
def work():
    for n in range(20):
        fibonacci(n)
os.write(1, b'ready\n')
while line := os.read(0, 100):
    if line == b'profile\n':
        sys.setprofile(note)
        work()
        sys.setprofile(None)
        os.write(1, b'returns %d\n' % returns)
    else:
        work()
        os.write(1, b'done\n')
END
  mkfifo "$work/in"
  $python -S "$work/calls.py" <"$work/in" >"$work/out" 3>&- &
  fed=$!
  ends_with_test $fed
  exec 7>"$work/in"
  until_line "$work/out" ready
  local returns
  returns=$(answer profile)
  watch count -p $fed --idle 'usdt:python:function__return' 'usdt:python:gc__*'
  [ "$(answer work)" = "done" ]
  end_watch
  cat "$work/out" "$work/records"
  [ "${returns#returns }" -gt 10000 ]
  [ "$(hits python:function__return)" -eq "${returns#returns }" ]
  no_trace $fed
}

# The kernel's own uprobe on the same site, which perf_event_open places, counts by itself.
@test "hits are those that the kernel counts at the same site" {
  setup_points
  local site
  site=$(readelf -nW "$TARGETS/points" | awk '/Provider: till/ { getline; getline; sub(/,/, "", $2); print $2 }')
  cat >"$work/kernel.py" <<'END'
import ctypes, os, struct, subprocess, sys
pid, path, address = int(sys.argv[1]), sys.argv[2], int(sys.argv[3], 16)
for line in subprocess.check_output(['readelf', '-lW', path], text=True).splitlines():
    part = line.split()
    if part[:1] == ['LOAD'] and int(part[2], 16) <= address < int(part[2], 16) + int(part[4], 16):
        offset = address - int(part[2], 16) + int(part[1], 16)
try:
    kind = int(open('/sys/bus/event_source/devices/uprobe/type').read())
except OSError:
    sys.exit('this kernel has no uprobes for perf events')
name = ctypes.create_string_buffer(path.encode())
# struct perf_event_attr: config1 is the file's name, config2 the offset
attributes = struct.pack('IIQQQQQIIQQ', kind, 72, 0, 0, 0, 0, 0, 0, 0, ctypes.addressof(name), offset)
attributes += bytes(72 - len(attributes))
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.syscall(298, attributes, pid, -1, -1, 0)
if fd < 0:
    sys.exit('the kernel refuses an uprobe here: ' + os.strerror(ctypes.get_errno()))
print('placed', flush=True)
sys.stdin.readline()
print('counted', struct.unpack('Q', os.read(fd, 8))[0], flush=True)
END
  # Each has the site for itself, for equally many orders: the kernel goes on from the instruction
  # that the file has there.
  watch count -p $fed 'usdt:till:order'
  work_off 777 >"$work/answered"
  end_watch
  [ "$(hits till:order)" -eq 777 ]
  no_trace $fed
  mkfifo "$work/end"
  python3 "$work/kernel.py" $fed "$TARGETS/points" "$site" <"$work/end" >"$work/kernel" 2>&1 3>&- 7>&- &
  local kernel=$!
  ends_with_test $kernel
  exec 8>"$work/end"
  until_line "$work/kernel" "placed|kernel"
  grep -q placed "$work/kernel" || skip "$(cat "$work/kernel")"
  work_off 777 >"$work/answered"
  echo >&8
  until_line "$work/kernel" counted
  wait $kernel
  exec 8>&-
  [ "$(grep -o '[0-9]*$' "$work/kernel")" -eq 777 ]
}

# recorded: of each point, the values by their averages, how many were negative, and how many there
# were: {'name': ([0, 5], 1, 3)}
recorded() {
  field "{x['function'].split(':')[1]: (sorted(v for _, n, v in x['slots'] for _ in range(n)), x['negative'], x['count']) for x in r if x['type'] == 'hist' and x['final']}"
}

@test "hist reads operands of every kind, with their sign" {
  for program in operands operands_nopie; do
    rm -f "$work/in"
    start_fed $program
    until_line "$work/out" '^ready'
    watch hist -p "$fed" 'usdt:operands:* $arg1'
    for number in -7 0 5 1000 nan; do tell $number passed; done
    end_watch || true  # not all can be read
    recorded >"$work/values"
    evaluate - "$work/values" $program <<'PYTHON'
import ast, sys
found = ast.literal_eval(open(sys.argv[1]).read())
numbers = [-7, 0, 5, 1000, 0]  # "nan" is none
reals = [-1, 0, 5, 1000, -1]   # and counts as negative

def all_of(values):
    return sorted(v for v in values if v >= 0), sum(v < 0 for v in values), len(values)

def signed_byte(number):
    return (number & 0xff ^ 0x80) - 0x80

wanted = {name: all_of(numbers) for name in ('signed', 'signed8', 'variable', 'thread',
                                             'thread_element', 'thread_memory')}
wanted |= {name: all_of(reals) for name in ('double', 'float', 'double_in_integer',
                                            'float_in_integer', 'real', 'real_in_memory')}

wanted['high'] = all_of([n & 0xff for n in numbers])
wanted['signed_high'] = wanted['byte'] = all_of([signed_byte(n) for n in numbers])
wanted['constant'] = ([], 5, 5)
if sys.argv[2] == 'operands_nopie':
    wanted['element'] = wanted['element_of_two'] = all_of(numbers)
# A sum of large values is stored shifted.
values, negative, count = found.pop('unsigned')

assert values[:-1] == [0, 0, 5, 1000] and values[-1] >> 20 == 4294967289 >> 20, values
assert (negative, count) == (0, 5)
assert found == wanted, (found, wanted)
PYTHON
    field "sorted({(x['function'], x['reason']) for x in r if x['type'] == 'skipped'})" >"$work/skipped"
    grep -q "'operands:long_double', 'argument_no_integer'" "$work/skipped"
    # Where the array lies is not in the code of a program that can be moved.
    [ $program = operands_nopie ] || grep -q "'operands:element', 'argument_elsewhere'" "$work/skipped"
    no_trace "$fed"
    end_fed
  done
}

@test "a type says whether a value has a sign" {
  start_fed operands
  until_line "$work/out" '^ready'
  watch hist -p "$fed" 'usdt:operands:signed $arg1:u32' 'usdt:operands:unsigned $arg1:s32' \
    'usdt:operands:signed8 %rdi:s16'
  tell -7 passed
  tell 5 passed
  end_watch
  recorded | grep -qF "'signed': ([5, 42949"
  recorded | grep -qF "'unsigned': ([5], 1, 2)"
  recorded | grep -qF "'signed8': ([5], 1, 2)"
  end_fed
}

@test "negative values are a line of their own" {
  start_fed operands
  until_line "$work/out" '^ready'
  mkfifo "$work/notes"
  "$PINPRICK" hist -p "$fed" 'usdt:operands:signed $arg1' >"$work/text" 2>"$work/notes" 3>&- 7>&- &
  watcher=$!
  ends_with_test $watcher
  exec 9<"$work/notes"
  read -r line <&9
  [[ "$line" == armed* ]]
  for number in -7 -8 -9 5; do tell $number passed; done
  end_watch
  cat "$work/text"
  grep -qE '^ +<0 \|#+ +75' "$work/text"
  grep -qE '^p50 <0  p90 5 ' "$work/text"
  grep -q 'n=4$' "$work/text"
  end_fed
}

@test "hist records one value of a hit" {
  run "$PINPRICK" hist -p $$ 'f $arg1 $arg2'
  echo "$output"
  [ "$status" -eq 2 ]
  [[ "$output" == *'a hit records one value; leave out $arg2'* ]]
}
