# For busybox's shell, which leaves its built-in commands by longjmp; and for its applets, forked without exec.
deep() { if [ "$1" = 0 ]; then return 3; fi; deep $(($1 - 1)); }
one_round() {
  n=0 sum=0
  while [ $n -lt 400 ]; do
    deep $((n % 20)) || sum=$((sum + $?))
    case $n in *7*) sum=$((sum * 31 % 1000003)) ;; esac
    n=$((n + 1))
  done
  words=$(n=0; while [ $n -lt 300 ]; do echo $((n * 7919 % 10007)); n=$((n + 1)); done | sort -n | sha256sum)
  readonly_error=$( (readonly r=1; r=2) 2>&1 | tail -c 10)
  echo "$sum $words $readonly_error"
}
first=$(one_round)
echo "$first"
round=1
while [ $round -lt 3 ] || [ ! -e "$1" ]; do
  one=$(one_round)
  [ "$one" = "$first" ] || { echo "MISMATCH in round $round"; exit 1; }
  one_round >/dev/null
  round=$((round + 1))
done
echo done
