# pinprick doctor: what works here, and what a report of a bug needs.
load helpers

# record EXPRESSION: of the records in $output; `r` is the list of them.
record() {
  evaluate '
import json, sys
r = [json.loads(line) for line in sys.argv[1].splitlines()]
print(eval(sys.argv[2]))' "$output" "$1"
}

@test "--json names the program and the machine first, as other tools do" {
  run "$PINPRICK" doctor --json
  echo "$output"
  [ "$(record 'r[0]["type"]')" = machine ]
  [ "$(record '[x["type"] for x in r].count("machine")')" -eq 1 ]
  same_lines "$("$PINPRICK" --version)" \
    "$(record '"pinprick %s\ncommit %s\nbuild ID %s" % (r[0]["program"], r[0]["commit"], r[0]["build_id"] or "none")')"
  [ "$(record 'r[0]["kernel"]')" = "$(uname -rv)" ]
  [ "$(record 'r[0]["cpus"]')" -ge "$(getconf _NPROCESSORS_CONF)" ]
  [ "$(record 'r[0]["uid"]')" -eq "$(id -u)" ]
  ! [ -r /etc/os-release ] || [ "$(record 'r[0]["system"]')" = "$(. /etc/os-release && echo "$PRETTY_NAME")" ]
  [ "$(record 'r[0]["cpu"]')" = "$(sed -n 's/^model name\t: //p' /proc/cpuinfo | head -n 1)" ]
}

@test "every check has a name of its own, its state, and a remedy if it does not work" {
  run "$PINPRICK" doctor --json
  echo "$output"
  [ "$(record 'len([x for x in r if x["type"] == "check"])')" -ge 8 ]
  [ "$(record 'len({x["name"] for x in r if x["type"] == "check"})')" = "$(record 'len(r) - 1')" ]
  [ "$(record '[x for x in r[1:] if x["health"] not in ("ok", "note", "bad") or not x["finding"]]')" = '[]' ]
  [ "$(record '[x for x in r[1:] if x["health"] == "bad" and not x["remedy"]]')" = '[]' ]
  [ "$status" -eq "$(record 'int(any(x["health"] == "bad" for x in r[1:]))')" ]
}

@test "the findings about processes are checks as well, and one that cannot be probed is bad" {
  start_ticker
  run "$PINPRICK" doctor --json -p $ticker -p 999999999
  echo "$output"
  [ "$status" -eq 1 ]
  [ "$(record '[x["health"] for x in r if x.get("name") == "process '$ticker'"]')" = "['ok']" ]
  [[ "$(record '[x["finding"] for x in r if x.get("name") == "process '$ticker'"]')" == *"ticker, 1 threads"* ]]
  [ "$(record '[x["health"] for x in r if x.get("name") == "process 999999999"]')" = "['bad']" ]
  end_ticker
}

@test "as text it says the same of the program and the machine" {
  run "$PINPRICK" doctor
  [[ "${lines[0]}" == "ok    pinprick "*"$("$PINPRICK" --version | sed -n 's/^build ID //p')" ]]
  [[ "${lines[1]}" == "ok    machine "* ]]
}

@test "without /sys, and without /proc, there are findings all the same" {
  unshare --mount true 2>/dev/null || skip "a mount namespace cannot be made here"
  run unshare --mount bash -c "mount -t tmpfs none /sys && exec '$PINPRICK' doctor --json"
  echo "$output"
  [ "$(record 'r[0]["type"]')" = machine ]
  [ "$(record '[x["health"] for x in r if x.get("name") == "attaching"]')" = "['ok']" ]
  run unshare --mount bash -c "mount -t tmpfs none /proc && exec '$PINPRICK' doctor --json"
  echo "$output"
  [ "$status" -eq 1 ]
  [ "$(record 'r[0]["cpu"]')" = 'unknown CPU' ]
  [ "$(record '[x["health"] for x in r if x.get("name") == "processes"]')" = "['bad']" ]
}
