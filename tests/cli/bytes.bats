# Texts of a known length, which may have zeros in them: bytes[LENGTH].
load helpers

# Python writes these, one after the other, and has them in JSON in a file.
write_program() {
  cat >"$work/write.py" <<'PYTHON'
import json, os, sys
texts = [b'', b'a', b'a\0b', b'\0\0', b'"\\\n', b'\xff\x00', b'x' * 63, b'x' * 64, b'x' * 65, bytes(range(1, 33)), b'a']
fd = os.dup2(os.open('/dev/null', os.O_WRONLY), 77)
for text in texts: os.write(fd, text)
json.dump([text.decode('utf-8', 'replace') for text in texts], open('texts', 'w'))
PYTHON
  cd "$work"
}

@test "bytes[LENGTH] has as many bytes, with their zeros, and is cut at 64" {
  write_program
  "$PINPRICK" trace --json -o records 'libc:write buf:bytes[count] if fd==77' -- python3 -S -I write.py
  python3 - <<'PYTHON'
import json
texts = json.load(open('texts'))
told = [json.loads(line) for line in open('records')]
told = [e for e in told if e['type'] == 'event']
assert [e['values']['buf'] for e in told] == [text[:64] for text in texts], told
assert [e.get('cut') for e in told] == [['buf'] if len(text) > 64 else None for text in texts]
PYTHON
}

@test "bytes are shown as in C, of a constant or computed length, and at the return" {
  write_program
  "$PINPRICK" trace -o lines 'libc:write%return buf:bytes[count] end=(buf+count-1):bytes[1] head=buf:bytes[2] if fd==77' -- \
    python3 -S -I write.py
  grep -qF 'write(buf="a\x00b", end="b", head="a\x00")' lines
  grep -qF 'buf="\"\\\n", end="\n", head="\"\\"' lines
  grep -Eq 'buf="x{64}", end="x"' lines
  grep -Eq 'buf="x{64}"\.\.\., end="x"' lines
  # gzip reads what is there: the first bytes of its file are in the buffer when read() returns.
  printf 'GET /\0index' >request
  "$PINPRICK" trace --json -o records 'libc:read%return buf@ret:bytes[$retval] if $retval==11' -- \
    gzip -c request >request.gz
  [ "$(field "[e['values']['buf@ret'] for e in r if e['type'] == 'event']")" = "['GET /\\x00index']" ]
}

@test "a negative length is none, and what cannot be read is told" {
  "$PINPRICK" trace --json -o "$work/records" 'libc:getenv a=name:bytes[0-1] b=(0*name):bytes[3] c=(0*name+8):bytes[3]' \
    --limit 1 -- bash -c 'exit' 2>/dev/null
  [ "$(field "[(e['values'], e.get('unreadable')) for e in r if e['type'] == 'event'][:1]")" = \
    "[({'a': '', 'b': None, 'c': None}, ['c'])]" ]
}

@test "bytes are keys, alone and in lists" {
  write_program
  "$PINPRICK" count --json -o records --by 'buf:bytes[2],count' 'libc:write if fd==77' -- python3 -S -I write.py
  python3 - <<'PYTHON'
import json
from collections import Counter
wanted = Counter()
for text in json.load(open('texts')):
    raw = text.encode() if '\ufffd' not in text else b'\xff\0'
    wanted[len(raw)] += 1
told = Counter()
for record in map(json.loads, open('records')):
    if record['type'] == 'count' and record['final']: told[record['key'][1]] += record['hits']
    if record['type'] == 'count' and record['key'][1] == 3 and record['key'][0] == 'a\0': told['a0'] += 1
assert told.pop('a0') == 1
assert told == wanted, (told, wanted)
PYTHON
  "$PINPRICK" count -o table --by 'buf:bytes[count]' 'libc:write if fd==77 && count==3' -- python3 -S -I write.py
  [ "$(grep -F 'a\x00b' table | awk '{ print $1 }')" = 1 ]
}

@test "--args shows what is written, and at the return what was read" {
  printf 'GET /\0index' >"$work/request"
  "$PINPRICK" trace --args -o "$work/lines" 'libc:read%return if $retval==11' 'libc:write if count==4' -- \
    python3 -S -I -c 'import os, sys; os.read(os.open(sys.argv[1], os.O_RDONLY), 99); os.write(1, b"out\n")' "$work/request" >"$work/out"
  grep -qF 'buf@ret="GET /\x00index", count=99) = 11 <' "$work/lines"
  grep -qF 'write(fd=1, buf="out\n", count=4)' "$work/lines"
}

@test "bytes without a length, or with a text as one, are refused" {
  refuses_bytes() {
    run "$PINPRICK" trace "$1" -- true
    [[ "$output" == *"$2"* ]] || { echo "$output"; return 1; }
  }
  refuses_bytes 'libc:write $arg2:bytes' 'say how many bytes there are: buf:bytes[count]'
  refuses_bytes 'libc:write $arg2:bytes[]' 'say how many bytes there are'
  refuses_bytes 'libc:write $arg2:bytes[count' 'say how many bytes there are'
  refuses_bytes 'libc:write $arg2:bytes[1+]' 'a value is missing'
  refuses_bytes 'libc:write $arg2:bytes[$arg2:string]' 'it is no number'
  refuses_bytes 'libc:write if buf:bytes[4]=="GET "' 'text'
}
