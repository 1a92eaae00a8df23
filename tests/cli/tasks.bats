# What people ask such tools for, on real programs, each held against what the program itself knows.
load helpers

# rows TYPE: key and figure of each row of the last report, as JSON.
rows() {
  field "sorted([x['key'], x.get('hits', x.get('count'))] for x in r
                if x['type'] == '$1' and x.get('final') and x['key'] is not None)"
}

@test "the sizes that dd writes to its output are those that it reports" {
  "$PINPRICK" hist --json -o "$work/records" 'libc:write count if fd==1' -- \
    dd if=/dev/zero bs=700 count=1500 2>"$work/said" >/dev/null
  grep -q '^1050000 bytes' "$work/said"
  [ "$(field "[[x['count'], x['sum'], x['negative']] for x in r if x['type'] == 'hist' and x['final']]")" = \
    "[[1500, 1050000.0, 0]]" ]
}

@test "what redis reads and writes is what its client has sent and got" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  cat >"$work/client.py" <<'PYTHON'
import random, socket, sys
random.seed(5)
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
print('connected', flush=True)
sys.stdin.readline()
sent = got = 0
for i in range(2000):
    key, value = b'key%d' % random.randrange(50), b'x' * random.choice((0, 7, 300))
    for words in ((b'SET', key, value), (b'GET', key)):
        text = b'*%d\r\n' % len(words) + b''.join(b'$%d\r\n%s\r\n' % (len(word), word) for word in words)
        link.sendall(text)
        sent += len(text)
        wanted = 5 if words[0] == b'SET' else len(b'$%d\r\n\r\n' % len(value)) + len(value)
        while wanted:
            part = link.recv(wanted)
            wanted -= len(part)
            got += len(part)
print(sent, got, flush=True)
sys.stdin.readline()
PYTHON
  # It is connected all the time, as redis uses the number of its file for others before and after.
  mkfifo "$work/go"
  python3 "$work/client.py" "$work/socket" <"$work/go" >"$work/said" 3>&- &
  ends_with_test $!
  exec 9>"$work/go"
  until_line "$work/said" connected
  watch count -p $redis --by fd --sum '$retval' 'libc:read%return if $retval>0' 'libc:write%return if $retval>0'
  echo go >&9
  until_line "$work/said" '^[0-9]'
  end_watch
  [ "$(field "[[x['sum'] for x in r if x['type'] == 'count' and x['final'] and x['function'] == f and x['hits'] >= 4000]
              for f in ('read', 'write')]")" = "$(sed '1d; s/ /], [/; s/^/[[/; s/$/]]/' "$work/said")" ]
  exec 9>&-
  no_trace $redis
}

@test "allocations are counted by size, the largest first, and timed by the byte" {
  cat >"$work/program.py" <<'PYTHON'
blocks = [bytearray(70000) for _ in range(300)] + [bytearray(50000) for _ in range(200)]
PYTHON
  PYTHONMALLOC=malloc "$PINPRICK" count --json -o "$work/records" --by size --sum size \
    'libc:malloc if size in {70001,50001}' -- python3 "$work/program.py"
  [ "$(rows count)" = "[[50001, 200], [70001, 300]]" ]
  [ "$(field "sorted(x['sum'] for x in r if x['type'] == 'count' and x['final'])")" = "[10000200, 21000300]" ]
  PYTHONMALLOC=malloc "$PINPRICK" count --top 2 -o "$work/table" --by size --sum size libc:malloc -- \
    python3 "$work/program.py"
  [ "$(awk '$NF == "malloc" { print $3 }' "$work/table" | paste -sd' ')" = "70001 50001" ]
  grep -qE ' other rows$' "$work/table"
  # A block of no bytes has no time for each.
  cat >"$work/sizes.py" <<'PYTHON'
import ctypes
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
for size in [0] * 50 + [123457] * 70: c.malloc(ctypes.c_size_t(size))
PYTHON
  "$PINPRICK" measure --json -o "$work/records" 'hist libc:malloc%return $latency/size if size in {0,123457}' \
    'count libc:malloc if size in {0,123457}' -- python3 "$work/sizes.py"
  [ "$(field "[x['count'] for x in r if x['type'] == 'hist' and x['final']]")" = "[70]" ]
  [ "$(field "[x['hits'] >= 120 for x in r if x['type'] == 'count' and x['final']]")" = "[True]" ]
}

@test "TLS handshakes are timed by whether they succeeded, as both sides know" {
  cat >"$work/handshakes.py" <<'PYTHON'
import collections, os, socket, ssl, threading
def context(side):
    made = ssl.SSLContext(side)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers('AECDH:@SECLEVEL=0')  # needs no certificate
    return made
ended = collections.Counter()
def serve(listening):
    for _ in range(30):
        link, _ = listening.accept()
        try:
            context(ssl.PROTOCOL_TLS_SERVER).wrap_socket(link, server_side=True).close()
            ended[1] += 1
        except ssl.SSLError: ended[0] += 1
listening = socket.socket()
listening.bind(('127.0.0.1', 0))
listening.listen()
server = threading.Thread(target=serve, args=(listening,))
server.start()
for i in range(30):
    link = socket.create_connection(listening.getsockname())
    if i % 3 == 0:
        link.sendall(b'this is no handshake\n' * 10)
    else:
        context(ssl.PROTOCOL_TLS_CLIENT).wrap_socket(link).close()
        ended[1] += 1
    link.close()
server.join()
open(os.environ['TALLY'], 'w').write(str(sorted(map(list, ended.items()))))
PYTHON
  TALLY=$work/tally "$PINPRICK" latency --allow-missing --json -o "$work/records" --by '$retval:s32>=1' \
    libssl:SSL_do_handshake -- python3 "$work/handshakes.py"
  [ "$(rows latency)" = "$(cat "$work/tally")" ]
  [ "$(cat "$work/tally")" = "[[0, 10], [1, 40]]" ]
}

# A function of bash's own that has four commands in it, the last call's three, is called in a depth
# that bash keeps in a global variable.
@test "commands of bash are counted by how deep its functions are, which a variable of its own says" {
  cat >"$work/deep.sh" <<'BASH'
f() { [ $1 -eq 0 ] || f $(($1 - 1)); }
for i in 1 2 3 4 5; do f $i; done
BASH
  "$PINPRICK" count --json -o "$work/records" --by variable_context bash:execute_command_internal -- \
    bash "$work/deep.sh"
  local expected='[1, 20]'
  for depth in 2 3 4 5 6; do
    expected+=", [$depth, $((4 * (7 - depth) - 1))]"
  done
  [ "$(field "[x for x in $(rows count) if x[0] > 0]")" = "[$expected]" ]
}

# texts FUNCTION: texts and hits of the last report, as JSON, in the order of the texts.
texts() {
  evaluate - "$work/records" "$1" <<'PYTHON'
import json, sys
print(json.dumps(sorted([x['key'], x['hits']] for x in map(json.loads, open(sys.argv[1]))
                        if x['type'] == 'count' and x['final'] and x['function'] == sys.argv[2] and x['hits'])))
PYTHON
}

@test "the lines that awk gets by fgets are those that it counts itself" {
  command -v mawk >/dev/null || skip "mawk is not installed, which reads by fgets"
  printf 'a line\nanother\na line\n\n%s\nlast, which has no end' "$(printf 'long %.0s' {1..40})" >"$work/lines"
  "$PINPRICK" count --json -o "$work/records" --by '$retval:string' 'libc:fgets%return if $retval' -- \
    mawk -W interactive '{ ++n[$0] } END { for (line in n) print n[line] " " line }' \
    <"$work/lines" >"$work/said"
  [ "$(texts fgets)" = "$(evaluate - "$work/said" <<'PYTHON'
import json, sys
rows = []
for said in open(sys.argv[1]):
    times, line = said.rstrip('\n').split(' ', 1)
    if 'no end' not in line: line += '\n'
    rows.append([line if len(line) <= 64 else line[:64] + '...', int(times)])
print(json.dumps(sorted(rows)))
PYTHON
)" ]
}

@test "the lines that an interactive bash reads are those that are typed" {
  command -v script >/dev/null || skip "script is not installed, which makes terminals"
  printf '%s\n' 'echo one' 'echo two' ': three >/dev/null' 'echo one' '' 'exit 5' >"$work/typed"
  "$PINPRICK" list --file "$(command -v bash)" readline | grep -q readline || skip "this bash has no readline of its own"
  run script -qec "'$PINPRICK' count --json -o '$work/records' --by '\$retval:string' 'bash:readline%return if \$retval' \
    -- bash --norc --noprofile -i" /dev/null <"$work/typed"
  echo "$output"
  [ "$status" -eq 5 ]
  [ "$(texts readline)" = "$(evaluate '
import collections, json, sys
print(json.dumps(sorted(map(list, collections.Counter(open(sys.argv[1]).read().splitlines()).items()))))' "$work/typed")" ]
}

# Python 3.11 itself reaches function__entry for the first frame only, as gdb sees, too. So it is its returns
# that are compared.
@test "Python's functions are counted by their names, as Python itself counts them" {
  local python=/usr/bin/python3.11
  [ -x $python ] && readelf -n $python | grep -q function__return || skip "no python3.11 with SDT points here"
  cat >"$work/calls.py" <<'END'
import collections, json, os, sys
called = collections.Counter()
def note(frame, event, argument):
    if event == 'call': called[frame.f_code.co_name] += 1
def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)
def square(n): return n * n
def a_name_that_is_longer_than_the_sixty_four_bytes_of_a_text_and_is_therefore_cut(n): return -n
def work():
    fibonacci(10)
    list(map(square, range(70)))
    sorted(range(30), key=a_name_that_is_longer_than_the_sixty_four_bytes_of_a_text_and_is_therefore_cut)
os.write(1, b'ready\n')
while line := os.read(0, 100):
    sys.setprofile(note if line == b'profile\n' else None)
    work()
    sys.setprofile(None)
    os.write(1, json.dumps(called).encode() + b'\n')
END
  mkfifo "$work/in"
  $python -S "$work/calls.py" <"$work/in" >"$work/out" 3>&- &
  fed=$!
  ends_with_test $fed
  exec 7>"$work/in"
  until_line "$work/out" ready
  answer profile >"$work/tally"
  watch measure -p $fed --by '$arg2:string' 'count usdt:python:function__return' \
    'fibonacci = count usdt:python:function__return if $arg2:string=="fibonacci" && $arg1:string=~"*/calls.py"'
  answer work
  end_watch
  evaluate - "$work/records" "$work/tally" <<'PYTHON'
import json, sys
called = {name if len(name) <= 64 else name[:64] + '...': n for name, n in json.load(open(sys.argv[2])).items()}
assert called['fibonacci'] == 177 and called['square'] == 70 and len(called) == 4, called
rows = [x for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']]
# It calls functions of others as well.
found = {x['key']: x['hits'] for x in rows if 'if' not in x and x['key'] in called}
assert found == called, (rows, called)
assert [[x['key'], x['hits']] for x in rows if 'if' in x] == [['fibonacci', 177]], rows
PYTHON
  no_trace $fed
}

@test "sleep waits for as many nanoseconds as strace sees" {
  command -v strace >/dev/null || skip "strace is not installed"
  local seconds
  for seconds in 0.0123 0.000001; do
    strace -o "$work/trace" -e trace=clock_nanosleep,nanosleep sleep $seconds
    "$PINPRICK" hist --json -o "$work/records" 'libc:clock_nanosleep *(s64*)($arg3+8) if *(s64*)$arg3==0' -- sleep $seconds
    [ "$(field "[[x['count'], int(x['sum'])] for x in r if x['type'] == 'hist' and x['final']]")" = \
      "[[1, $(sed -n 's/.*tv_nsec=\([0-9]*\)}.*/\1/p' "$work/trace" | head -n 1)]]" ]
  done
}

@test "files that cat opens are counted by name, as strace sees them, and by whether they were there" {
  command -v strace >/dev/null || skip "strace is not installed"
  mkdir "$work/folder"
  echo one >"$work/folder/a"
  echo two >"$work/folder/b with blanks"
  local files=(a 'b with blanks' a missing a "$(printf 'long%.0s' {1..30})")
  (cd "$work/folder" && ! strace -o "$work/trace" -e trace=open,openat cat "${files[@]}") >/dev/null 2>&1
  (cd "$work/folder" && ! "$PINPRICK" count --json -o "$work/records" --by 'pathname:string' \
    'libc:open if pathname:string!="/*"' -- cat "${files[@]}") >/dev/null 2>&1
  evaluate - "$work/records" "$work/trace" "$work/folder" <<'PYTHON'
import collections, json, re, sys
seen = collections.Counter(m[1] for m in re.finditer(r'^open(?:at)?\([^"]*"((?!/)[^"]*)"', open(sys.argv[2]).read(), re.M))
seen = {name if len(name) <= 64 else name[:64] + '...': n for name, n in seen.items()}
rows = {x['key']: x['hits'] for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']}
rows = {name: n for name, n in rows.items() if name is not None and not name.startswith('/')}
assert rows == seen and seen['a'] == 3 and len(seen) == 4, (rows, seen)
PYTHON
  (cd "$work/folder" && ! "$PINPRICK" count --json -o "$work/records" --by 'pathname:string' \
    'libc:open%return if $retval:s32<0 && pathname:string=~"m*"' -- cat "${files[@]}") >/dev/null 2>&1
  [ "$(texts open)" = '[["missing", 1]]' ]
}

@test "files that cat opens are told with all arguments and the result, as strace sees them" {
  command -v strace >/dev/null || skip "strace is not installed"
  mkdir "$work/folder"
  echo one >"$work/folder/a"
  (cd "$work/folder" && ! strace -o "$work/trace" -e trace=open,openat cat a missing a) >/dev/null 2>&1
  (cd "$work/folder" && ! "$PINPRICK" trace --json -o "$work/records" 'libc:open%return' --args -- cat a missing a) \
    >/dev/null 2>&1
  evaluate - "$work/records" "$work/trace" <<'PYTHON'
import json, os, re, sys
seen = [(m[1], eval(m[2], {}, {'O_RDONLY': os.O_RDONLY}), int(m[3]), m[4]) for m in
        re.finditer(r'^open(?:at)?\((?:AT_FDCWD, )?"((?!/)[^"]*)", (\w+)\)\s+= (-?\d+) ?(\w*)', open(sys.argv[2]).read(), re.M)]
told = []
for x in map(json.loads, open(sys.argv[1])):
    if x['type'] == 'event':
        values = x['values']
        told.append((values['pathname'], values['flags'], values['$retval'], values.get('$errno', '')))
told = [one for one in told if not one[0].startswith('/')]
assert told == seen and len(seen) == 3 and seen[1][2:] == (-1, 'ENOENT'), (told, seen)
PYTHON
}

@test "variables that ls asks for are counted by name, as a debugger sees them" {
  command -v gdb >/dev/null || skip "gdb is not installed"
  cat >"$work/commands" <<'END'
set pagination off
set breakpoint pending on
set startup-with-shell off
unset environment LINES
unset environment COLUMNS
break getenv
commands
silent
printf "asked:%s\n", (char*)$rdi
continue
end
run
END
  gdb -q -batch -nx -x "$work/commands" --args "$(command -v ls)" "$work" >"$work/said" 2>&1 </dev/null || true
  grep -q '^asked:' "$work/said" || skip "gdb cannot run programs here"
  env -u LINES -u COLUMNS "$PINPRICK" count --json -o "$work/records" --by name:string libc:getenv -- ls "$work" >/dev/null
  [ "$(texts getenv)" = "$(sed -n 's/^asked://p' "$work/said" | python3 -c '
import collections, json, sys
print(json.dumps(sorted(map(list, collections.Counter(sys.stdin.read().splitlines()).items()))))')" ]
}

@test "statements that sqlite3 prepares are those that it is given" {
  command -v sqlite3 >/dev/null || skip "sqlite3 is not installed"
  ldd "$(command -v sqlite3)" | grep -q libsqlite3 || skip "this sqlite3 has its library in itself"
  {
    echo 'create table t(a, b);'
    for i in 1 2 3 4 5 6 7; do echo "insert into t values($((i % 3)), 'text');"; done
    echo 'select count(*) from t;'
    echo "select a, b, 'and a statement that is longer than a text may be' from t;"
  } >"$work/statements"
  "$PINPRICK" count --json -o "$work/records" --by zSql:string libsqlite3:sqlite3_prepare_v2 -- \
    sqlite3 -batch :memory: <"$work/statements" >"$work/out"
  head -n 1 "$work/out" | grep -q '^7$'
  evaluate - "$work/records" "$work/statements" <<'PYTHON'
import collections, json, sys
given = collections.Counter(line if len(line) <= 64 else line[:64] + '...' for line in open(sys.argv[2]).read().splitlines())
# It has others of its own.
rows = {x['key']: x['hits'] for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'count' and x['final']}
assert {text: n for text, n in rows.items() if text in given} == given, (rows, given)
PYTHON
  # And how long those take that change something.
  "$PINPRICK" latency --json -o "$work/records" --by 'zSql:string[6]' \
    'libsqlite3:sqlite3_prepare_v2 if zSql:string=~"insert *"' -- sqlite3 -batch :memory: <"$work/statements" >"$work/out"
  [ "$(field "[[x['key'], x['count']] for x in r if x['type'] == 'latency' and x['final']]")" = "[['insert...', 7]]" ]
}

@test "names that Python looks up are counted and timed as it has asked for them" {
  cat >"$work/program.py" <<'PYTHON'
import collections, json, os, random, socket
random.seed(6)
asked = collections.Counter()
for i in range(300):
    name = random.choice(('127.0.0.1', '::1', '10.1.2.3', None))
    socket.getaddrinfo(name, 80)
    asked[name] += 1
json.dump(sorted(map(list, asked.items()), key=str), open(os.environ['TALLY'], 'w'))
PYTHON
  TALLY=$work/tally "$PINPRICK" measure --json -o "$work/records" --by node:string 'latency libc:getaddrinfo' \
    'count libc:getaddrinfo%return if $retval:s32==0' -- python3 "$work/program.py"
  local type
  for type in latency count; do
    [ "$(field "json.dumps(sorted(([x['key'], x.get('hits', x.get('count'))] for x in r
                                   if x['type'] == '$type' and x['final']), key=str))")" = "$(cat "$work/tally")" ]
  done
}

# In redis 7.0 a client's command is 112 bytes into its structure, and the command begins with its name.
@test "redis's commands are counted by name, as its own statistics count them" {
  redis-server --version | grep -q 'v=7\.0\.' || skip "not redis 7.0, whose structures are known here"
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  watch count -p $redis --by '(*(char**)*(u64*)($arg1+112)):string' redis-server:call
  for command in set,get incr,lpush,sadd; do
    redis-benchmark -s "$work/socket" -t "$command" -n 3000 -q >/dev/null
  done
  # The last command of all does not count itself before it ends.
  redis-cli -s "$work/socket" info commandstats >"$work/stats"
  end_watch
  evaluate - "$work/stats" "$work/records" <<'PYTHON'
import collections, json, re, sys
theirs, ours = collections.Counter(), collections.Counter()
for name, calls in re.findall(r'cmdstat_([^:|]*)(?:\|[^:]*)?:calls=(\d+)', open(sys.argv[1]).read()):
    theirs[name] += int(calls)
for line in open(sys.argv[2]):
    record = json.loads(line)
    if record['type'] == 'count' and record['final']: ours[record['key']] += record['hits']
# A subcommand's own name is that of its structure.
theirs['get'] += theirs.pop('config', 0)
ours.pop('info')
assert theirs == ours, (theirs, ours)
assert theirs['set'] >= 3000 and theirs['sadd'] >= 3000, theirs
PYTHON
  no_trace $redis
}

# told FUNCTION: the values of its events in their order, as JSON.
told() { field "json.dumps([x['values'] for x in r if x['type'] == 'event' and x['function'] == '$1'])"; }

@test "the statements of sqlite are told one by one, with how they end" {
  command -v sqlite3 >/dev/null || skip "sqlite3 is not installed"
  ldd "$(command -v sqlite3)" | grep -q libsqlite3 || skip "this sqlite3 has its library in itself"
  local -a statements=('create table t(x)' 'insert into t values(1)' 'select wrong from t' 'select x from t')
  "$PINPRICK" trace --json -o "$work/records" 'sqlite3_prepare_v2%return zSql:string $retval' -- \
    sqlite3 :memory: "${statements[0]}" "${statements[1]}" >/dev/null
  evaluate - "$work/records" "${statements[@]:0:2}" <<'PYTHON'
import json, sys
told = [x['values'] for x in map(json.loads, open(sys.argv[1])) if x['type'] == 'event']
told = [x for x in told if x['zSql'] in sys.argv[2:]]
assert told == [{'zSql': text, '$retval': 0} for text in sys.argv[2:]], told
PYTHON
  "$PINPRICK" trace --json -o "$work/records" 'sqlite3_prepare_v2%return zSql:string $retval if $retval' -- \
    sqlite3 :memory: "${statements[2]}" 2>/dev/null >/dev/null || true
  field "{x['values']['zSql']: x['values']['\$retval'] for x in r if x['type'] == 'event'}" | grep -F "'select wrong from t': 1"
}

@test "the names that a program looks up are told, with how long that took" {
  "$PINPRICK" trace --json -o "$work/records" 'libc:getaddrinfo%return node:string $retval' -- python3 -c '
import socket
for name in ("localhost", "127.0.0.1", "no.such.name.invalid"):
    try: socket.getaddrinfo(name, 80)
    except socket.gaierror: pass' || skip "this libc names the parameters of getaddrinfo otherwise"
  [ "$(field "[x['values']['node'] for x in r if x['type'] == 'event']")" = \
    "['localhost', '127.0.0.1', 'no.such.name.invalid']" ]
  field "[x['values']['\$retval'] for x in r if x['type'] == 'event'][:2]" | grep -F '[0, 0]'
  field "all(x['latency_ns'] > 0 for x in r if x['type'] == 'event')" | grep True
}

@test "what threads start with is told by its name" {
  start_ticker 3
  watch trace -p "$ticker" 'libc:pthread_create start=$arg3:sym thread=$arg1:x'
  tell "tick 3" ticked
  end_watch
  [ "$(field "{x['values']['start'] for x in r if x['type'] == 'event'}")" = "{'$(sed -n 's/.*pthread_create([^,]*, [^,]*, \([a-z_]*\),.*/\1/p' "$BATS_TEST_DIRNAME/../targets/ticker.c")'}" ]
  [ "$(field "len([x for x in r if x['type'] == 'event'])")" -eq 2 ]
  end_ticker
}

@test "the lines that an interactive bash reads are told in their order" {
  command -v script >/dev/null || skip "script is not installed, which makes terminals"
  printf '%s\n' 'echo one' 'echo "two"' '' 'exit 5' >"$work/typed"
  "$PINPRICK" list --file "$(command -v bash)" readline | grep -q readline || skip "this bash has no readline of its own"
  run script -qec "'$PINPRICK' trace --json -o '$work/records' 'bash:readline%return \$retval:string' \
    -- bash --norc --noprofile -i" /dev/null <"$work/typed"
  echo "$output"
  [ "$status" -eq 5 ]
  [ "$(field "[x['values']['\$retval'] for x in r if x['type'] == 'event']")" = "['echo one', 'echo \"two\"', '', 'exit 5']" ]
}

# The last instruction before the first jump or call, as gdb lists them, is not the entry. Texts lie in
# pages that both runs have elsewhere, at the same place.
@test "a register at an instruction of ls is what a debugger sees there" {
  command -v gdb >/dev/null || skip "gdb is not installed"
  local offset library
  library=$(ldd "$(command -v ls)" | awk '/libc.so/ { print $3 }')
  offset=$(gdb -q -batch -nx -ex 'disassemble getenv' "$library" |
    sed -n '/\t\(j\|call\)/q;s/^ *0x[0-9a-f]* <+\([0-9]*\)>:.*/\1/p' | tail -1)
  [ "$offset" -gt 0 ]
  cat >"$work/commands" <<END
set pagination off
set startup-with-shell off
unset environment LINES
unset environment COLUMNS
set breakpoint pending on
break setlocale
run
delete
break *((char*)&getenv + $offset)
commands
silent
printf "saw:%d\n", (\$rdi & 0xfff)
continue
end
continue
END
  gdb -q -batch -nx -x "$work/commands" --args "$(command -v ls)" "$work" >"$work/said" 2>&1 </dev/null || true
  grep -q '^saw:' "$work/said" || skip "gdb cannot run programs here"
  sed -n 's/^saw://p' "$work/said" >"$work/seen"
  [ "$(wc -l <"$work/seen")" -ge 5 ]
  env -u LINES -u COLUMNS "$PINPRICK" trace --json -o "$work/records" "libc:getenv+$offset name=%di" -- \
    ls "$work" >/dev/null
  field "'\n'.join(str(e['values']['name'] & 0xfff) for e in r if e['type'] == 'event')" |
    tail -n "$(wc -l <"$work/seen")" | diff "$work/seen" -
}

@test "queries of postgres are timed from one point to another, as many as it is given" {
  local bin
  bin=$(echo /usr/lib/postgresql/*/bin)
  [ -x "$bin/postgres" ] || skip "postgresql is not installed"
  become_nobody "$PINPRICK"
  local data=$work/unprivileged/data
  "${as_nobody[@]}" "$bin/initdb" -D "$data" -U someone --no-sync >/dev/null
  for ((i = 0; i < 57; i++)); do echo "select $i;"; done >"$work/queries"
  "${as_nobody[@]}" "$work/$(basename "$PINPRICK")" latency --json -o "$work/unprivileged/records" \
    'usdt:postgresql:query__start..usdt:postgresql:query__done' -- \
    "$bin/postgres" --single -D "$data" postgres <"$work/queries" >"$work/said"
  mv "$work/unprivileged/records" "$work/records"
  [ "$(grep -c '1: ?column? = ' "$work/said")" -eq 57 ]
  [ "$(field "[(x['count'], x['unmatched_ends']) for x in r if x['type'] in ('latency', 'span') and x['final']]")" = "[(57, 0)]" ]
}

# Each class says itself how many of its objects there are.
@test "objects that a Ruby program creates are counted by class" {
  command -v ruby >/dev/null || skip "ruby is not installed"
  cat >"$work/shop.rb" <<'RUBY'
class Base
  def self.new(*) = super.tap { @made = (@made || 0) + 1 }
  def self.made = @made
end
class Shop < Base; end
class Item < Base; end
class Price < Base; end
srand(7)
1000.times { [Shop, Item, Price][rand(3)].new }
puts [Shop, Item, Price].map { |one| "#{one.made} #{one}" }
RUBY
  "$PINPRICK" count -o "$work/table" --by '$arg1:string' --top 3 usdt:ruby:object__create -- \
    ruby --disable-gems "$work/shop.rb" >"$work/said"
  [ "$(awk '/ (Shop|Item|Price) / { print $1, $3 }' "$work/table" | sort)" = "$(sort "$work/said")" ]
}

@test "list --args has all static points of a running Python, as readelf sees them" {
  mkfifo "$work/in"
  python3 -S -I -c 'print("begun", flush=True); input()' <"$work/in" >"$work/out" 3>&- &
  local python=$!
  ends_with_test $python
  exec 7>"$work/in"
  until_line "$work/out" begun
  "$PINPRICK" list --json --args -p $python 'usdt:*' >"$work/records"
  local file
  awk '$2 ~ /x/ && $6 ~ /^\// { print $6 }' /proc/$python/maps | sort -u >"$work/files"
  while read -r file; do readelf -nW "$file" 2>/dev/null | sed -n 's/^.*\(Provider\|Name\|Arguments\): //p'; done \
    <"$work/files" | paste -d ' ' - - - | sed 's/ *$//' | LC_ALL=C sort >"$work/known"
  [ "$(wc -l <"$work/known")" -ge 5 ]
  field "'\n'.join(x['function'].replace(':', ' ') + ' ' + x['arguments'] for x in r)" |
    sed 's/ *$//' | LC_ALL=C sort | diff "$work/known" -
}

@test "commands of redis in each interval make those that it has counted itself" {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
  watch count -p $redis -i 0.1 redis-server:processCommand
  redis-benchmark -s "$work/socket" -q -n 20000 -t set,get >/dev/null
  local known
  known=$(redis-cli -s "$work/socket" info stats | tr -d '\r' | sed -n 's/^total_commands_processed://p')
  end_watch
  # It counts a command when it is done, so not yet the INFO that asks.
  [ "$(field "[sum(x['hits'] for x in r if x['type'] == 'count' and x['final'] == final) for final in (False, True)]")" = \
    "[$((known + 1)), $((known + 1))]" ]
}
