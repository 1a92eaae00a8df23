# pinprick top, on a terminal of tmux as its users have it, and without a terminal.
load helpers

# tm COMMAND...: of this test's own tmux.
tm() { tmux -u -S "$work/tmux" -f /dev/null "$@"; }

# start_terminal [WIDTH HEIGHT]: with a shell in it, which has job control.
start_terminal() {
  export LC_ALL=${LC_ALL-C.UTF-8}
  tm new-session -d -x "${1:-80}" -y "${2:-24}" "exec bash --norc --noprofile -i" 3>&- 7>&-
  ends_with_test "$(tm display -p '#{pid}')"
  shell=$(tm display -p '#{pane_pid}')
  run_there "PS1='ready> '; stty -g >$work/modes; cd $work"
}

screen() { tm capture-pane -p; }
screen_has() { has_line <(screen) "$1"; }
screen_lacks() { ! screen_has "$1"; }

# shows PATTERN: waits until a line of the screen matches.
shows() {
  patiently screen_has "$1" || { screen >&2; return 1; }
}
no_longer_shows() {
  patiently screen_lacks "$1" || { screen >&2; return 1; }
}

# Conditions for patiently(), as a screen is drawn from top to bottom.
line_is() { screen | sed -n "$1p" | grep -qE -- "$2"; }
names_are() { [ "$(screen | grep -oE ' (descend|rest|scale|step)$' | tr -d '\n ')" = "$1" ]; }
rows_are() { [ "$(screen | grep -cE "^[> ] .* $1$")" -eq "$2" ]; }

press() { tm send-keys "$@"; }
# run_there COMMAND: in the shell of the terminal.
run_there() { tm send-keys -l "$1" && tm send-keys Enter; }

# start_top ARGUMENTS...: in the terminal. Its exit status and the modes after it go to files.
start_top() {
  run_there "$PINPRICK top $* 2>$work/said; \
    echo status=\$? >$work/status; stty -g >$work/modes_after"
}

# pid_of_top: once it runs.
pid_of_top() {
  patiently pgrep -P "$shell" >/dev/null
  pgrep -P "$shell" | head -n 1
}

is_alternate() { [ "$(tm display -p '#{alternate_on}')" = 1 ]; }
is_main() { [ "$(tm display -p '#{alternate_on}')" = 0 ]; }

# terminal_is_restored: what the shell had before is there again.
terminal_is_restored() {
  patiently test -s "$work/modes_after"
  diff "$work/modes" "$work/modes_after"
  patiently is_main
  [ "$(tm display -p '#{cursor_flag}')" = 1 ]
  rm "$work/modes_after"
}

ended_with() {
  until_line "$work/status" '^status='
  [ "$(cat "$work/status")" = "status=$1" ]
  rm "$work/status"
}

# Calls step, descend, scale and rest all the time, and checks what they return.
start_steady() { start_fed steady 2; }
steady_is_right() { [ "$(answer now)" = ok ]; }

@test "top shows what is called, and q leaves no trace in the program or on the terminal" {
  start_steady
  start_terminal
  start_top -p $fed steady:step steady:rest
  shows '^pinprick top +'$fed' \(steady\) +2 functions, 2 called'
  shows '^[> ] +[0-9.]+[kM]? .* step$'
  shows '^steady:(step|rest) .*calls per ns'
  shows '^n=[0-9,]+ +p50 '
  is_alternate
  steady_is_right
  press q
  ended_with 0
  terminal_is_restored
  grep -q '^detached cleanly' "$work/said"
  no_trace $fed
  steady_is_right
  end_fed
}

@test "the terminal and the program are as before after each way to end" {
  start_steady
  start_terminal
  local way
  for way in C-c 'C-\' TERM HUP duration; do
    echo "$way"
    if [ $way = duration ]; then
      start_top -p $fed -d 1.5 steady:step
    else
      start_top -p $fed steady:step
    fi
    shows '^[> ] .* step$'
    case $way in
      C-*) press "$way" ;;
      duration) ;;
      *) kill -$way "$(pid_of_top)" ;;
    esac
    ended_with 0
    terminal_is_restored
    no_trace $fed
  done
  steady_is_right
  end_fed
}

@test "a crash gives the terminal back, and detach takes out the probes" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  kill -ABRT "$(pid_of_top)"
  ended_with 134
  terminal_is_restored
  "$PINPRICK" detach -p $fed
  no_trace $fed
  end_fed
}

@test "a terminal that is closed ends top, and the probes are out" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  local top
  top=$(pid_of_top)
  tm kill-server
  patiently has_ended "$top"
  no_trace $fed
  end_fed
}

@test "Ctrl-Z gives the terminal to the shell, the program runs on, and fg draws again" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  local round
  for round in 1 2; do
    press C-z
    shows '^pinprick top is suspended: the probes stay in'
    patiently is_main
    # The shell's own commands see the modes that they had before.
    run_there "stty -g >$work/modes_meanwhile; echo stopped $round"
    shows "^stopped $round"
    diff "$work/modes" "$work/modes_meanwhile"
    steady_is_right
    [ "$("$PINPRICK" status -p $fed --json | grep -c '"state":"live"')" -eq 1 ]
    run_there fg
    patiently is_alternate
    shows '^[> ] .* step$'
  done
  press q
  patiently is_main
  patiently no_trace $fed
  end_fed
}

@test "in the background top does not draw, and SIGTERM ends it cleanly" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  local top
  top=$(pid_of_top)
  press C-z
  shows '^pinprick top is suspended'
  run_there "bg; echo back"
  shows '^back'
  kill -TERM "$top"
  patiently has_ended "$top"
  is_main
  # The shell has written it when top was suspended.
  rm "$work/modes_after"
  run_there "stty -g >$work/modes_now; mv $work/modes_now $work/modes_after"
  terminal_is_restored
  no_trace $fed
  end_fed
}

@test "a new size is drawn anew, and one that is too small says so" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  tm resize-window -x 70 -y 20
  shows '^pinprick top needs 80x24, this is 70x20'
  no_longer_shows ' step$'
  tm resize-window -x 150 -y 40
  shows '^[> ] .* step$'
  no_longer_shows 'needs 80x24'
  patiently line_is 40 '^q end'
  press q
  ended_with 0
  terminal_is_restored
  no_longer_shows 'CALLS/S|calls per ns'
  no_trace $fed
  end_fed
}

@test "keys order, filter, select, freeze and explain" {
  start_steady
  start_terminal
  start_top -p $fed "'steady:s*'" steady:rest steady:descend
  shows ' step$'
  shows ' descend$'
  press n
  shows '▲FUNCTION'
  # By name: descend, rest, scale, step.
  patiently names_are descendrestscalestep
  press Down Down
  shows '^>.* scale$'
  shows '^steady:scale '
  press End
  shows '^>.* step$'
  press /
  shows '^filter: _'
  press REST
  no_longer_shows ' step$'
  shows '^>.* rest$'
  press Enter
  shows '  filter: REST$'
  press Escape
  shows ' step$'
  no_longer_shows 'filter: REST'
  press i
  shows '^the whole time: '
  press Space
  shows 'FROZEN'
  press Space
  no_longer_shows 'FROZEN'
  press '?'
  shows '^Keys$'
  press x
  no_longer_shows '^Keys$'
  press q
  ended_with 0
  no_trace $fed
  end_fed
}

written_twice() { [ "$(find "$work" -name 'pinprick-top-*.txt' | wc -l)" -eq 2 ]; }

@test "w writes what is seen, and says where" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  press Space
  shows FROZEN
  press w
  shows '^written to '"$work"'/pinprick-top-[0-9]{8}-[0-9]{6}\.txt$'
  local seen
  seen=$(screen | head -n 23)
  [ "$seen" = "$(head -n 23 "$work"/pinprick-top-*.txt)" ]
  # Another file, as nothing is overwritten.
  press w
  patiently written_twice
  press q
  ended_with 0
  end_fed
}

@test "a program that ends stays on the screen until q" {
  start_steady
  start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  end_fed
  shows "^$fed \\(steady\\) has ended; q ends pinprick"
  shows '\(ended\) step$'
  press q
  ended_with 0
  terminal_is_restored
  grep -q 'the program has ended' "$work/said"
}

@test "with two processes each row has its PID, and one that ends leaves the other" {
  start_steady
  local first=$fed
  rm "$work/in"
  exec 8>&7
  start_fed steady 1
  start_terminal 100 30
  start_top -p $first -p $fed steady:step
  shows ' PID CALLS/S'
  shows "^[> ] +$first +[0-9].* step$"
  shows "^[> ] +$fed +[0-9].* step$"
  exec 8>&-
  kill -KILL $first
  shows "^[> ] +$first .*\\(ended\\) step$"
  shows "^$first \\(steady\\) has ended$"
  steady_is_right
  press q
  ended_with 0
  no_trace $fed
  end_fed
}

@test "a thousand functions are rows that the selection reaches" {
  python3 >"$work/crowd.c" <<'PYTHON'
n = 1000
print('#include <stdio.h>\n#include <unistd.h>\n#include <poll.h>')
for i in range(n):
    print(f'__attribute__((noipa)) int crowd_{i:03}(int x) {{ return x * 3 + {i}; }}')
print('static int (*const all[])(int) = {', ', '.join(f'crowd_{i:03}' for i in range(n)), '};')
print("""int main(void) {
  struct pollfd input = {0, POLLIN, 0};
  while (poll(&input, 1, 10) == 0)
    for (int i = 0; i < 1000; i++)
      if (all[i](i) != i * 4) return 1;
}""")
PYTHON
  cc -O1 -o "$work/crowd" "$work/crowd.c" || skip "needs a C compiler"
  TARGETS=$work start_fed crowd
  start_terminal 200 50
  start_top -p $fed "'crowd_*'"
  shows '1,000 functions, 1,000 called'
  press n
  shows '^> .* crowd_000$'
  press End
  shows '^> .* crowd_999$'
  press PPage
  no_longer_shows '^> .* crowd_999$'
  press /
  press 77
  # 077, 177 to 977, and 770 to 779, with 777 in both.
  shows '^filter: 77_'
  patiently rows_are 'crowd_(.77|77.)' 19
  patiently rows_are 'crowd_.*' 19
  press Enter
  press q
  ended_with 0
  terminal_is_restored
  no_trace $fed
  end_fed
}

@test "a locale without UTF-8 is shown ASCII alone" {
  start_steady
  LC_ALL=C start_terminal
  start_top -p $fed steady:step
  shows '^[> ] .* step$'
  shows '\|#+'
  ! screen | LC_ALL=C grep -q '[^ -~]'
  press q
  ended_with 0
  end_fed
}

@test "without a terminal it prints a table for each interval, and one of all" {
  start_steady
  "$PINPRICK" top -p $fed -d 2.5 -i 1 steady:step steady:rest >"$work/tables" 2>"$work/said"
  [ "$(grep -c '^the last 1.0 s$' "$work/tables")" -eq 2 ]
  # And the rest of the time.
  [ "$(grep -c '^the last 0.[0-9] s$' "$work/tables")" -eq 1 ]
  [ "$(grep -c 'CALLS/S .* FUNCTION' "$work/tables")" -eq 4 ]
  [ "$(grep -c ' step$' "$work/tables")" -eq 4 ]
  grep -q '^missed 0$' "$work/tables"
  ! grep -q $'\033' "$work/tables"
  no_trace $fed
  end_fed
}

@test "-o and a dumb terminal have tables, too" {
  start_steady
  start_terminal
  start_top -p $fed -d 1.2 -o "$work/tables" steady:step
  ended_with 0
  grep -q ' step$' "$work/tables"
  run_there "export TERM=dumb"
  start_top -p $fed -d 1.2 steady:step
  shows '^ CALLS/S .* FUNCTION'
  ended_with 0
  is_main
  no_trace $fed
  end_fed
}

@test "--json has the records of latency" {
  start_ticker
  watch top -p $ticker ticker:tick
  tell "tick 1000" ticked
  end_watch
  [ "$(field "[x['count'] for x in r if x['type'] == 'latency' and x['final']][0]")" -eq 1000 ]
  no_trace $ticker
  end_ticker
}

@test "without a terminal it ends when all processes have ended" {
  start_steady
  "$PINPRICK" top -p $fed steady:step >"$work/tables" 2>"$work/said" 3>&- 7>&- &
  local top=$!
  ends_with_test $top
  until_line "$work/tables" ' step$'
  end_fed
  wait $top
  grep -q 'the program has ended' "$work/said"
}

@test "without a pattern or a process it says what is missing" {
  run "$PINPRICK" top -p $$
  [ "$status" -eq 3 ]
  [[ $output == *"there are no statistics to show; give a PATTERN"* ]]
  run "$PINPRICK" top malloc
  [ "$status" -eq 2 ]
  [[ $output == *"give -p PID"* ]]
  run "$PINPRICK" top -p $$ malloc -- true
  [ "$status" -eq 2 ]
}

@test "an error before the screen leaves the terminal alone" {
  start_steady
  start_terminal
  start_top -p $fed no_such_function
  ended_with 3
  terminal_is_restored
  grep -q "no function matches 'no_such_function'" "$work/said"
  end_fed
}
