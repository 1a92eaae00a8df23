# redis-server under load: its own statistics are the oracle.
load helpers

start_redis() {
  redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no --dir "$work" \
    >"$work/redis.log" 2>&1 3>&- &
  redis=$!
  ends_with_test $redis
  until_line "$work/redis.log" 'ready to accept connections'
}

cli() { redis-cli -s "$work/socket" "$@"; }
load_redis() { redis-benchmark -s "$work/socket" -q "$@" >/dev/null 3>&-; }
# Calls of all commands, as redis counts them.
calls() { cli info commandstats | awk -F'[=,]' '/^cmdstat_/ { n += $2 } END { print n + 0 }'; }

@test "hits over 100,000 commands equal redis's own statistics exactly" {
  start_redis
  load_redis -n 1000 -t set,get
  watch count -p $redis redis-server:call redis-server:processCommand
  local before after
  before=$(calls)
  load_redis -n 20000 -P 16 -t set,get,incr,lpush,rpop
  after=$(calls)
  end_watch
  # An INFO is not yet in its own answer: of the two, one is in the difference, and both in our count.
  [ $((after - before)) -gt 100000 ]
  [ "$(hits call)" -eq $((after - before + 1)) ]
  [ "$(hits processCommand)" -eq $((after - before + 1)) ]
  no_trace $redis
  [ "$(cli ping)" = PONG ]
}

@test "histogram totals equal redis's own statistics exactly" {
  start_redis
  watch latency -p $redis redis-server:call 'redis-server:lookupKey*'
  local before after
  before=$(calls)
  load_redis -n 30000 -P 16 -t set,get
  after=$(calls)
  end_watch
  [ "$(field "[x['count'] for x in r if x['type'] == 'latency' and x['function'] == 'call'][0]")" -eq $((after - before + 1)) ]
  [ "$(field "sum(x['missed'] for x in r if x['type'] == 'latency')")" -eq 0 ]
  [ "$(field "[sum(s[1] for s in x['slots']) == x['count'] for x in r if x['type'] == 'latency'].count(False)")" -eq 0 ]
  no_trace $redis
}

@test "statistics of redis's commands equal its own, after resets and pauses under load" {
  start_redis
  local load before after
  for one in getCommand setCommand processCommand; do
    "$PINPRICK" kstats -p $redis trace $one
  done
  "$PINPRICK" kstats -p $redis trace request start readQueryFromClient end writeToClient
  redis-benchmark -s "$work/socket" -q -n 200000 -P 4 -t set,get >/dev/null 3>&- &
  load=$!
  ends_with_test $load
  for _ in 1 2 3 4 5; do
    for one in getCommand processCommand request; do
      "$PINPRICK" kstats -p $redis STOP $one
      "$PINPRICK" kstats -p $redis RESET $one
      "$PINPRICK" kstats -p $redis START $one
    done
  done
  wait $load
  for one in getCommand setCommand processCommand; do "$PINPRICK" kstats -p $redis RESET $one; done
  before=$(calls)
  load_redis -n 40000 -P 16 -t set,get
  after=$(calls)
  for one in getCommand setCommand processCommand; do
    "$PINPRICK" kstats -p $redis --json show $one
  done >"$work/records"
  run field "[(x['count'], x['missed']) for x in r]"
  echo "$output, $before, $after"
  [ "$output" = "[(40000, 0), (40000, 0), ($((after - before + 1)), 0)]" ]
  "$PINPRICK" detach -p $redis
  no_trace $redis
  [ "$(cli ping)" = PONG ]
}

@test "every function counted and timed, under load, and the text is the file's again" {
  start_redis
  redis-benchmark -s "$work/socket" -q -n 400000 -P 8 -t set,get,lpush,lrange_100 >/dev/null 3>&- &
  local load=$!
  ends_with_test $load
  for verb in count latency count; do
    watch $verb -p $redis --allow-missing 'redis-server:*'
    [ "$(field '[x["armed"] for x in r if x["type"] == "armed"][0]')" -gt 3500 ]
    until_line "$work/redis.log" .
    cli set key value >/dev/null
    [ "$(cli get key)" = value ]
    end_watch
    "$PINPRICK" detach -p $redis >/dev/null 2>&1 || true
  done
  kill $load 2>/dev/null || true
  wait $load || true
  text_is_original $redis
  [ "$(cli ping)" = PONG ]
  run "$PINPRICK" detach -p $redis
  no_trace $redis
}

@test "every call of every function is timed by exits as often as it is counted" {
  start_redis
  load_redis -n 1000 -t set,get
  watch measure -p $redis --ends=exits --allow-missing 'calls = count redis-server:*' 'times = latency redis-server:*'
  load_redis -n 50000 -P 16 -t set,get,lpush,lpop,hset,zadd
  end_watch
  evaluate - "$work/records" <<'END_OF_CODE'
import json, sys
records = [json.loads(line) for line in open(sys.argv[1])]
final = [r for r in records if r.get('final')]
hits = {(r['function'], r['address']): r['hits'] for r in final if r['type'] == 'count'}
times = {(r['function'], r['address']): r['count'] + r['abandoned'] for r in final if r['type'] == 'latency'}
assert all(r['missed'] == 0 for r in final if r['type'] == 'latency')
# A call that goes on at the end was counted, and is not timed.
going_on = sum(hits[one] - times[one] for one in times)
assert all(hits[one] >= times[one] for one in times)
assert going_on == sum(r['released'] for r in records if r['type'] == 'detached'), going_on
assert sum(n > 0 for n in times.values()) > 100 and sum(times.values()) > 5_000_000, sum(times.values())
END_OF_CODE
  no_trace $redis
}
