# pinprick without arguments: what to type first, for the processes that this user may probe.
load helpers

# in_namespace [OPTIONS...] <<SCRIPT: a shell that sees no processes but its own, in $work.
in_namespace() {
  unshare --pid --mount --fork --mount-proc --kill-child true 2>/dev/null ||
    skip "a PID namespace cannot be made here"
  cat >"$work/script"
  run timeout 60 unshare --pid --mount --fork --mount-proc --kill-child \
    env PINPRICK="$PINPRICK" TARGETS="$TARGETS" work="$work" bash -eu "$work/script" 3>&-
  echo "$output"
}

# fits: no line is wider than a terminal of 80 columns, and nothing in it is for the terminal.
fits() {
  awk 'length > 80 { print "too wide: " $0; wide = 1 } END { exit wide }' <<<"$output"
  [ -z "$(tr -d '[:print:]\n' <<<"$output")" ]
}

@test "the processes that may be probed are shown, the busiest first and the shell last" {
  in_namespace <<'SCRIPT'
cp "$(command -v bash)" "$work/burner"
mkfifo "$work/burnt" "$work/go"
"$work/burner" -c 'for ((i = 0; i < 300000; ++i)); do :; done; echo >"$work/burnt"; read <"$work/go"' &
read <"$work/burnt"
"$TARGETS/ticker" 1 < <(read <"$work/go") >/dev/null &
until [ /proc/$!/exe -ef "$TARGETS/ticker" ]; do :; done
"$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  fits
  [[ "${lines[0]}" == "pinprick "* ]]
  local names
  names=$(awk '/CPU TIME/ { table = 1; next } table && !/^ +[0-9]/ { exit } table { print $3 }' <<<"$output")
  [ "$(head -n 1 <<<"$names")" = burner ]
  grep -qx ticker <<<"$names"
  [ "$(tail -n 1 <<<"$names")" = bash ]
  [ -z "$(grep pinprick <<<"$names")" ]
  [[ "$output" == *"With burner, for example:"* ]]
}

@test "each of the commands shown works as it is, also in a program without libc's allocators" {
  local target
  for target in ticker ticker_static; do
    [ -x "$TARGETS/$target" ]
    in_namespace <<SCRIPT
mkfifo "\$work/go.$target"
exec 7<>"\$work/go.$target"
"\$TARGETS/$target" 1 <&7 >/dev/null &
until [ /proc/\$!/exe -ef "\$TARGETS/$target" ]; do :; done
"\$PINPRICK" >"\$work/screen"
cat "\$work/screen"
PATH=\$(dirname "\$PINPRICK"):\$PATH
export XDG_RUNTIME_DIR=\$work/runtime-$target
mkdir \$XDG_RUNTIME_DIR
# Those of the process are for the busiest, which is this shell.
[ "\$(grep -c "^  pinprick .* -p" "\$work/screen")" -eq 4 ]
grep -oE '^  pinprick (list|count|latency|top) .*' "\$work/screen" | sed -E "s/  +[a-z].*//" | while read -r line; do
  echo "\$line"
  line=\${line/-d 10/-d 0.1}
  [[ \$line != *" latency "* && \$line != *" top "* ]] || line+=' -d 0.1'
  eval "\$line" >"\$work/result" 2>&1 || { cat "\$work/result"; exit 1; }
done
echo all of them
SCRIPT
    [ "$status" -eq 0 ]
    [[ "$output" == *"With $target, for example:"* ]]
    [[ "$output" == *"all of them"* ]]
  done
}

@test "names of processes reach no terminal as commands, and fit their column" {
  in_namespace <<'SCRIPT'
mkfifo "$work/go"
bash -c 'printf "\033[31mre\nd\t\233x" >/proc/self/comm; cat /proc/self/comm >/dev/null; read <"$work/go"' &
bash -c 'printf "\033]0;x\a" >/proc/$$/comm; echo >"$work/named"; read <"$work/go"' &
until [ -e "$work/named" ]; do :; done
"$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  [[ "$output" == *"?]0;x?"* ]]
  fits
}

@test "kernel threads, 32-bit programs, traced ones and pinprick itself are not shown" {
  if [ "$(cat /proc/2/comm)" = kthreadd ]; then
    run "$PINPRICK"
    [ -z "$(grep -E '^ +2 ' <<<"$output")" ]
  fi
  in_namespace <<'SCRIPT'
if "$TARGETS/pause32" & then pause=$!; fi
mkfifo "$work/go"
"$TARGETS/ticker" 1 < <(read <"$work/go") >/dev/null &
until [ /proc/$!/exe -ef "$TARGETS/ticker" ]; do :; done
"$TARGETS/tracer" $! >"$work/tracer" &
until grep -q '^traced' "$work/tracer"; do :; done
"$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  [ -z "$(grep -E '  (ticker|pause32|pinprick)$' <<<"$output")" ]
  grep -qE '  tracer$' <<<"$output"
}

@test "a user who may probe none learns why, what to do, and what works nevertheless" {
  become_nobody "$PINPRICK"
  cat >"$work/none" <<'SCRIPT'
mount -o remount,hidepid=$1 /proc
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$work/pinprick"
SCRIPT
  in_namespace <<'SCRIPT'
setpriv --reuid=65534 --regid=65534 --clear-groups "$work/pinprick"
SCRIPT
  [ "$status" -eq 0 ]
  fits
  [[ "$output" == *"no process here that you may probe"*"none of 1 may be probed"*"as root"*"-- ls -l"* ]]
  local how
  for how in 0 1 2; do
    in_namespace <<SCRIPT
bash "\$work/none" $how
SCRIPT
    [ "$status" -eq 0 ]
    fits
    [[ "$output" == *"as root"* ]]
    [ $how = 0 ] || [[ "$output" == *hidepid* ]]
    [ $how != 0 ] || [[ "$output" != *hidepid* ]]
  done
}

@test "root without CAP_SYS_PTRACE learns that a container needs it" {
  in_namespace <<'SCRIPT'
mkfifo "$work/go"
exec 7<>"$work/go"
setpriv --reuid=65534 --regid=65534 --clear-groups cat <&7 &
until grep -q '^Uid:.65534' /proc/$!/status; do :; done
exec setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  fits
  [[ "$output" == *"none of "[1-9]" may be probed"*"a container needs the capability SYS_PTRACE"* ]]
}

@test "alone in a container, one learns how to see others" {
  in_namespace <<'SCRIPT'
exec "$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  fits
  [[ "$output" == *"no other process is to be seen"* ]]
}

@test "the screen needs no /sys, and no /proc" {
  in_namespace <<'SCRIPT'
mount -t tmpfs none /sys
"$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  [[ "$output" == *"With bash, for example:"* ]]
  in_namespace <<'SCRIPT'
mount -t tmpfs none /proc
"$PINPRICK"
SCRIPT
  [ "$status" -eq 0 ]
  fits
  [[ "$output" == *"/proc is not there"*"mount -t proc proc /proc"* ]]
}

@test "a screen that cannot be written is an error" {
  [ -w /dev/full ] || skip "there is no /dev/full"
  run bash -c "'$PINPRICK' 2>&1 >/dev/full"
  [ "$status" -eq 1 ]
  [ "${#lines[@]}" -eq 1 ]
  [[ "$output" == *"No space left on device"* ]]
}
