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
