#!/bin/bash
# in_tracefs.sh LINES PID COMMAND...: defines the kernel's events of the file LINES, all of which are in the
# group GROUP, runs the command while the process hits them, and prints what the kernel has traced of it. Has
# an instance of its own, and leaves nothing behind. Exits with 77, and the reason, where that is impossible.
set -eu
lines=$1 pid=$2
shift 2

if [ "${IN_NAMESPACE:-}" = '' ]; then
  [ "$(id -u)" -eq 0 ] || { echo "only root can define events of the kernel"; exit 77; }
  IN_NAMESPACE=yes exec unshare -m "$0" "$lines" "$pid" "$@"
fi
tracing=/sys/kernel/tracing
[ -e $tracing/uprobe_events ] || mount -t tracefs nodev $tracing 2>/dev/null ||
  { echo "no tracefs can be mounted"; exit 77; }
[ -e $tracing/uprobe_events ] || { echo "the kernel has no uprobe_events"; exit 77; }

instance=$tracing/instances/$GROUP
leave() {
  # An event that is enabled stays.
  echo 0 >"$instance/events/$GROUP/enable" || true
  rmdir "$instance" || true
  local event
  for event in $(sed -n "s|^[pr][0-9]*:\($GROUP/[^ ]*\) .*|\1|p" $tracing/uprobe_events); do
    echo "-:$event" >>$tracing/uprobe_events || true
  done
}
mkdir "$instance" 2>/dev/null || { echo "tracefs has no instances, or is read-only"; exit 77; }
trap leave EXIT
while read -r line; do
  echo "$line" >>$tracing/uprobe_events || { echo "refused: $line" >&2; tail -4 $tracing/error_log >&2; exit 1; }
done <"$lines"
echo "common_pid == $pid" >"$instance/events/$GROUP/filter"
echo 1 >"$instance/events/$GROUP/enable"
"$@" >&2
cat "$instance/trace"
