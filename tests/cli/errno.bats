# Error numbers: errno of a thread when a call returns, and results that are error numbers.
load helpers

# Calls that fail in ways that Python knows, one after the other.
write_calls() {
  cat >"$work/calls.py" <<'PYTHON'
import errno, json, os, sys
tried = []
os.symlink('loop', 'loop')
for path in ['/dev/null', '/no/such', 'calls.py/x', 'loop', 'x' * 300, '/dev/null', '/etc', '/no/such']:
    try:
        os.close(os.open(path, os.O_WRONLY if path == '/etc' else os.O_RDONLY))
        tried.append([path, None])
    except OSError as error:
        tried.append([path, errno.errorcode[error.errno]])
json.dump(tried, open('tried', 'w'))
PYTHON
  cd "$work"
}

@test "\$errno is the error that the program sees, by its name" {
  write_calls
  "$PINPRICK" trace --json -o "$work/records" 'libc:open64%return pathname:string $errno if $retval:s32<0' -- \
    python3 -S -I calls.py
  python3 - <<'PYTHON'
import json
tried = [one for one in json.load(open('tried')) if one[1]]
told = [json.loads(line) for line in open('records')]
told = [e['values'] for e in told if e['type'] == 'event']
paths = {path[:60] for path, _ in tried}
told = [[v['pathname'].removesuffix('...'), v['$errno']] for v in told]
told = [[path[:60], error] for path, error in told if path[:60] in paths]
assert told == [[path[:60], error] for path, error in tried], (told, tried)
assert {error for _, error in told} == {'ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EISDIR'}
PYTHON
}

@test "errors have their names in conditions, and as keys" {
  write_calls
  "$PINPRICK" count -o "$work/table" --by '$errno' 'libc:open64%return if $errno in {EISDIR,ELOOP} && $retval:s32<0' -- \
    python3 -S -I calls.py
  grep -q 'per second *\$errno  function' "$work/table"
  [ "$(awk '/open64/ { print $1, $3 }' "$work/table" | sort)" = $'1 EISDIR\n1 ELOOP' ]
  rm loop
  "$PINPRICK" count --json -o "$work/records" --by '$errno,$tid==0' 'libc:open64%return if $errno==ELOOP && $retval:s32<0' -- \
    python3 -S -I calls.py
  [ "$(field "[x['key'] for x in r if x['type'] == 'count']")" = "[['ELOOP', 0]]" ]
}

@test "--args tells why a call has failed, and nothing if it has not" {
  write_calls
  "$PINPRICK" trace --args -o "$work/lines" 'libc:open64%return' -- python3 -S -I calls.py
  grep -q 'open64(pathname="/no/such", .* = -1 ENOENT <' "$work/lines"
  grep -q 'open64(pathname="loop", .* = -1 ELOOP <' "$work/lines"
  grep -Eq 'open64\(pathname="/dev/null", .* = [0-9]+ <' "$work/lines"
  rm loop
  "$PINPRICK" trace --args --json -o "$work/records" 'libc:open64%return' -- python3 -S -I calls.py
  [ "$(field "[e['values'].get('\$errno') for e in r if e['type'] == 'event' and
    e['values']['pathname'] in ('/dev/null', 'loop')]")" = "[None, 'ELOOP', None]" ]
}

@test "each thread has its own error" {
  cat >"$work/threads.py" <<'PYTHON'
import os, threading
def work(path):
    for _ in range(500):
        try: os.open(path, os.O_WRONLY)
        except OSError: pass
threads = [threading.Thread(target=work, args=[p]) for p in ('/no/such', '/etc', '/dev/null/x')]
for t in threads: t.start()
for t in threads: t.join()
PYTHON
  "$PINPRICK" count --json -o "$work/records" --by 'pathname:string,$errno' \
    'libc:open64%return if $retval:s32<0 && flags==0x80001' -- python3 -S -I "$work/threads.py"
  [ "$(field "sorted([x['key'], x['hits']] for x in r if x['type'] == 'count' and x['final'])")" = \
    "[[['/dev/null/x', 'ENOTDIR'], 500], [['/etc', 'EISDIR'], 500], [['/no/such', 'ENOENT'], 500]]" ]
}

@test "results that are error numbers are told by name, with a sign if they have one" {
  cat >"$work/calls.py" <<'PYTHON'
import ctypes
libc = ctypes.CDLL(None)
libc.posix_fallocate(-1, 0, 1)
libc.posix_memalign(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(3), ctypes.c_size_t(8))
PYTHON
  "$PINPRICK" trace --json -o "$work/records" 'libc:posix_fallocate%return $retval:errno' \
    'libc:posix_memalign%return $retval:errno error=-$retval:errno' -- python3 -S -I "$work/calls.py"
  [ "$(field "[(e['function'], e['values']) for e in r if e['type'] == 'event' and e['values']['\$retval'] != 0]")" = \
    "[('posix_fallocate', {'\$retval': 'EBADF'}), ('posix_memalign', {'\$retval': 'EINVAL', 'error': '-EINVAL'})]" ]
}

@test "what has no errno is refused, and \$errno is known at the return alone" {
  run "$PINPRICK" trace 'libc:open64 $errno' -- true
  [ "$status" -eq 2 ] || [ "$status" -eq 125 ]
  [[ "$output" == *"known at the return alone"* ]]
  printf 'void f(void){} void _start(void){f();__asm__("mov $60,%%eax;xor %%edi,%%edi;syscall");}' >"$work/bare.c"
  gcc -O0 -static -nostdlib -o "$work/bare" "$work/bare.c"
  run "$PINPRICK" trace 'f%return $errno' -- "$work/bare"
  [[ "$output" == *"has no __errno_location"* ]]
}
