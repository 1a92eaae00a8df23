# pinprick serve: what Prometheus gets, and what clients that are no Prometheus do to the server.
load helpers

setup_file() { bats_require_minimum_version 1.5.0; }

start_redis() {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
}

load_redis() { redis-benchmark -s "$work/socket" -q "$@" >/dev/null 3>&-; }

# serve [ARGUMENT...]: in the background, at a port that is free; $port and $url.
serve() {
  "$PINPRICK" serve --json 127.0.0.1:0 "$@" >"$work/serving" 2>&1 3>&- 7>&- &
  server=$!
  ends_with_test $server
  until_line "$work/serving" '"type":"serving"'
  port=$(evaluate 'import json, sys; print(json.load(open(sys.argv[1]))["port"])' "$work/serving")
  url=http://127.0.0.1:$port/metrics
}

end_serve() {
  kill -INT $server
  wait $server
}

# scrape: into $work/metrics
scrape() { curl -sf -o "$work/metrics" "$url"; }

# check_metrics [FILE...]: runs Python on stdin with the samples of the last scrape as `x`, by the
# reader of Prometheus's own client.
check_metrics() {
  /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null || skip "python3-prometheus-client is not installed"
  {
    printf 'import json, sys\nsys.path.insert(0, "%s")\nimport read_export\n' "$BATS_TEST_DIRNAME"
    cat <<'PYTHON'
x = read_export.read_prometheus(sys.argv[1])
def of(name, **labels):
    return [v for l, v in x.get(name, []) if all(l.get(k) == w for k, w in labels.items())]
def buckets(name, **labels):
    return [(l['le'], v) for l, v in x[name + '_bucket'] if all(l.get(k) == w for k, w in labels.items())]
PYTHON
    cat
  } >"$work/check.py"
  /usr/bin/python3 "$work/check.py" "$work/metrics" "$@"
}

@test "statistics of redis are those of kstats, to the last bucket, at each scrape" {
  start_redis
  "$PINPRICK" kstats -p $redis trace call
  "$PINPRICK" kstats -p $redis trace fine bits 5 start processCommand
  "$PINPRICK" kstats -p $redis trace query start readQueryFromClient end processCommand
  serve --bits 3
  local round
  for round in 1 2; do
    load_redis -n 5000 -c 4 -t get,set
    scrape
    # A raw socket gets the same, but for the time of the scrape.
    exec 6<>/dev/tcp/127.0.0.1/$port
    printf 'GET /metrics HTTP/1.1\r\n\r\n' >&6
    cat <&6 >"$work/raw"
    exec 6<&-
    sed '1,/^\r$/d' "$work/raw" | grep -v '^pinprick_scrape' >"$work/raw_metrics"
    grep -v '^pinprick_scrape' "$work/metrics" | cmp - "$work/raw_metrics"
    grep -qx 'Content-Type: text/plain; version=0.0.4; charset=utf-8.' "$work/raw"
    "$PINPRICK" kstats -p $redis --json show >"$work/figures"
    check_metrics "$work/figures" $redis $((round * 10000)) <<'PYTHON'
figures = [json.loads(line) for line in open(sys.argv[2])]
figures = [one for one in figures if one['type'] == 'statistic']
assert {one['name'] for one in figures} == {l['statistic'] for l, v in x['pinprick_statistic_seconds_count']}
for one in figures:
    key = {'statistic': one['name'], 'pid': sys.argv[3], 'comm': 'redis-server', 'owner': 'kstats',
           'object': 'redis-server'}
    assert of('pinprick_statistic_seconds_count', **key) == [one['count']], one['name']
    (total,) = of('pinprick_statistic_seconds_sum', **key)
    assert abs(total - one['sum_ns'] / 1e9) < 1e-9 + total * 1e-6, (total, one['sum_ns'])
    bounds = buckets('pinprick_statistic_seconds', **key)
    assert len(bounds) == 30 * 8 + 2, len(bounds)
    for le, count in bounds[:-1]:
        # A slot is counted if it ends at the bound: its first value is no more.
        assert count == sum(n for floor, n, _ in one['slots'] if floor <= round(float(le) * 1e9)), le
    assert of('pinprick_statistic_running', **key) == [1]
assert of('pinprick_statistic_seconds_count', statistic='call')[0] >= int(sys.argv[4])
assert [l['function'] for l, v in x['pinprick_statistic_seconds_count'] if l['statistic'] == 'fine'] == ['processCommand']
assert of('pinprick_up') == [1]
PYTHON
  done
  "$PINPRICK" kstats -p $redis STOP call
  "$PINPRICK" kstats -p $redis RESET call
  scrape
  check_metrics <<'PYTHON'
assert of('pinprick_statistic_seconds_count', statistic='call') == [0]
assert of('pinprick_statistic_running', statistic='call') == [0]
PYTHON
  kill $redis
  wait $redis || true
  scrape
  run -1 grep -q redis "$work/metrics"
  grep -qx 'pinprick_up 1' "$work/metrics"
  end_serve
}

@test "what programs record about themselves is there, with small numbers and losses" {
  [ -x "$TARGETS/recorder" ] || skip "built with sanitizers: libpinprick is not"
  start_fed recorder
  tell "record 10" "done"
  tell "end" "done"
  tell "many 200" "done"
  serve
  scrape
  check_metrics $fed <<'PYTHON'
own = {'owner': 'recorded', 'pid': sys.argv[2], 'comm': 'recorder'}
assert of('pinprick_statistic_seconds_count', statistic='mine', **own) == [10]
# The values 0 .. 9, which it has recorded.
assert round(of('pinprick_statistic_seconds_sum', statistic='mine', **own)[0] * 1e9) == 45
seen = dict(buckets('pinprick_statistic_seconds', statistic='mine', **own))
assert [seen[le] for le in ('0', '1e-09', '5e-09')] == [1, 2, 6], seen
assert of('pinprick_not_recorded_total', statistic='times', cause='unmatched_ends', **own) == [1]
many = [v for l, v in x['pinprick_statistic_seconds_count'] if l['statistic'].startswith('many-')]
assert many == [1000] * 200, many
assert of('pinprick_left_out') == [0]
PYTHON
  end_fed
  end_serve
}

@test "figures of count, latency and hist are there while they run, by owner" {
  start_redis
  serve
  local counter
  watch count -p $redis redis-server:processCommand
  counter=$watcher
  watch latency -p $redis redis-server:call
  # Its own time is short, and each pinprick has a function of its own.
  "$PINPRICK" hist --json -p $redis 'libc:write $arg3' >"$work/hist" 2>&1 3>&- &
  local teller=$!
  ends_with_test $teller
  until_line "$work/hist" '"type":"armed"'
  load_redis -n 5000 -c 4 -t get,set
  scrape
  "$PINPRICK" status -p $redis --json >"$work/status"
  check_metrics "$work/status" $counter $watcher $teller <<'PYTHON'
sessions = [json.loads(line) for line in open(sys.argv[2])]
rows = {one['controller']: one['probes'][0] for one in sessions if one['type'] == 'session'}
counter, timer, teller = map(int, sys.argv[3:6])
def key(owner, function, object='redis-server'): return {'owner': str(owner), 'function': function, 'object': object}
assert of('pinprick_hits_total', **key(counter, 'processCommand')) == [rows[counter]['hits']]
assert rows[counter]['hits'] >= 10000
assert of('pinprick_call_duration_seconds_count', **key(timer, 'call')) == [rows[timer]['count']]
assert of('pinprick_values_count', value='$arg3', **key(teller, 'write', 'libc.so.6')) == [rows[teller]['count']]
PYTHON
  local one
  for one in $counter $watcher $teller; do
    kill -INT $one
    wait $one
  done
  scrape
  run -1 grep -q 'redis-server' "$work/metrics"
  end_serve
}

@test "promtool finds nothing wrong with the metrics" {
  command -v promtool >/dev/null || skip "promtool is not installed"
  start_redis
  "$PINPRICK" kstats -p $redis trace call
  load_redis -n 1000 -t get
  serve
  scrape
  promtool check metrics <"$work/metrics"
  end_serve
}

@test "other paths and methods are refused, and / leads to the metrics" {
  serve
  local base=${url%/metrics}
  [ "$(curl -s -o "$work/page" -w '%{http_code} %{content_type}' "$base/")" = "200 text/html; charset=utf-8" ]
  grep -q 'href="/metrics"' "$work/page"
  [ "$(curl -s -o /dev/null -w '%{http_code}' "$base/metrics/x")" = 404 ]
  [ "$(curl -s -o /dev/null -w '%{http_code}' -d x=y "$url")" = 405 ]
  [ "$(curl -s -o /dev/null -w '%{http_code}' -X DELETE "$url")" = 405 ]
  [ "$(curl -s -o /dev/null -w '%{http_code}' -X GET -d x=y "$url")" = 413 ]
  [ "$(curl -s -o /dev/null -w '%{http_code}' -H "A: $(printf %09000d 0)" "$url")" = 431 ]
  [ "$(curl -sI "$url?name=up" | head -n 1)" = $'HTTP/1.1 200 OK\r' ]
  end_serve
}

@test "clients that send half a request, read nothing or come by the hundred cost little, and others are answered" {
  [ -x "$TARGETS/recorder" ] || skip "built with sanitizers: libpinprick is not"
  start_fed recorder
  tell "many 300" "done"
  serve
  scrape
  /usr/bin/python3 - $port "$(stat -c %s "$work/metrics")" $server <<'PYTHON'
import socket, sys, threading
port, size, server = map(int, sys.argv[1:])
def connect():
    client = socket.create_connection(('127.0.0.1', port))
    client.settimeout(60)
    return client
def rest(client):
    data = b''
    while part := client.recv(1 << 20): data += part
    return data
def get():
    with connect() as client:
        client.sendall(b'GET / HTTP/1.1\r\n\r\n')
        return rest(client)
held = []
for i in range(24):
    for sent in (b'', b'GET /met', b'GET /metrics HTTP/1.1\r\n\r\n', b'A' * 4000):
        held.append(connect())
        held[-1].sendall(sent)
assert get().startswith(b'HTTP/1.1 200 OK')
answers = []
def ask():
    try: answers.append(get())
    except OSError as error: answers.append(error)
threads = [threading.Thread(target=ask) for _ in range(100)]
for one in threads: one.start()
for one in threads: one.join()
wrong = [one for one in answers if not (isinstance(one, bytes) and one.startswith(b'HTTP/1.1 200 OK'))]
assert not wrong, wrong[:3]
for one in held: one.close()
# In pieces, and read in pieces.
with connect() as client:
    for byte in b'GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n': client.sendall(bytes([byte]))
    assert client.recv(1) == b'H'
    assert get().startswith(b'HTTP/1.1 200 OK')
    assert abs(len(rest(client)) - size) < 1000
most = [int(line.split()[1]) for line in open(f'/proc/{server}/status') if line.startswith('VmHWM')][0]
# What 16 clients have not read yet, and what is being made.
assert most * 1024 < 20 * size + (64 << 20), most
PYTHON
  scrape
  end_fed
  end_serve
}

@test "a socket in a folder serves as well, and is gone at the end" {
  "$PINPRICK" serve "unix:$work/own" 2>"$work/serving" 3>&- &
  server=$!
  ends_with_test $server
  until_line "$work/serving" "^serving /metrics at unix:$work/own until Ctrl-C"
  curl -sf --unix-socket "$work/own" http://localhost/metrics | grep -qx 'pinprick_up 1'
  run "$PINPRICK" serve "unix:$work/own"
  [ "$status" -eq 1 ]
  [[ "$output" == "pinprick: cannot listen at unix:$work/own: another program listens there;"* ]]
  end_serve
  [ ! -e "$work/own" ]
}

@test "it ends after a time, and says what is wrong with an address" {
  run "$PINPRICK" serve -d 0.1 '[::1]:0'
  [ "$status" -eq 0 ] || [[ "$output" == *"this machine does not have the address"* ]]
  serve
  run "$PINPRICK" serve 127.0.0.1:$port
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"another program listens there; end it, or give another address, such as 127.0.0.1:$((port + 1))" ]]
  end_serve
  run "$PINPRICK" serve example.org:80
  [ "$status" -eq 2 ]
  [ "${#lines[@]}" -eq 1 ]
  run "$PINPRICK" serve --bits 6
  [ "$status" -eq 2 ]
  run "$PINPRICK" serve -d 0.1 0.0.0.0:0
  [ "$status" -eq 0 ]
  [[ "${lines[0]}" == *"all who reach 0.0.0.0:"*"see the names"* ]]
}

@test "another user sees only what it may look at" {
  start_ticker
  "$PINPRICK" kstats -p "$ticker" trace tick start ticker:tick
  become_nobody "$PINPRICK"
  # It may look into the folder, and not into the files.
  chmod 755 "$runtime" "$runtime"/*
  env XDG_RUNTIME_DIR="$runtime" "${as_nobody[@]:0:4}" "$work/pinprick" serve --json 127.0.0.1:0 \
    >"$work/serving" 2>&1 3>&- 7>&- &
  server=$!
  until_line "$work/serving" '"type":"serving"'
  port=$(evaluate 'import json, sys; print(json.load(open(sys.argv[1]))["port"])' "$work/serving")
  url=http://127.0.0.1:$port/metrics
  ends_with_test $server
  scrape
  run -1 grep -q ticker "$work/metrics"
  grep -qx 'pinprick_up 1' "$work/metrics"
  run -1 grep -qx 'pinprick_unreadable_files 0' "$work/metrics"
  end_serve
  end_ticker
}

# The metrics that the dashboard asks for are those that the program knows.
@test "the dashboard for Grafana is valid and names only metrics that there are" {
  local name
  evaluate 'import json, sys
import re
board = json.load(open(sys.argv[1]))
text = json.dumps(board)
assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) > 4
print("\n".join(sorted(set(re.findall(r"\bpinprick_[a-z_]+", text)))))' \
    "$BATS_TEST_DIRNAME/../../packaging/grafana-dashboard.json" >"$work/names"
  [ "$(wc -l <"$work/names")" -ge 5 ]
  while read -r name; do
    name=${name%_bucket}; name=${name%_sum}; name=${name%_count}
    grep -rq "\"$name\"" "$BATS_TEST_DIRNAME"/../../src/cli || { echo "$name"; return 1; }
    grep -q "\`$name\`" "$BATS_TEST_DIRNAME/../../docs/serve.md" || { echo "$name"; return 1; }
  done <"$work/names"
}
