# What is decoded of libraries is kept, and makes no difference but in time.
load helpers

# entries: names of what is kept, but for the key.
entries() { ls "$XDG_CACHE_HOME/pinprick" 2>/dev/null | grep -vx key; }

@test "list, count and latency keep what they decode, and say the same with it as without" {
  local verb without with
  for verb in list "list --instructions"; do
    # shellcheck disable=SC2086
    without=$("$PINPRICK" $verb --no-cache --json --file "$TARGETS/ticker")
    [ -z "$(entries)" ]
  done
  for verb in list "list --instructions"; do
    # shellcheck disable=SC2086
    with=$("$PINPRICK" $verb --json --file "$TARGETS/ticker")
    # shellcheck disable=SC2086
    [ "$with" = "$("$PINPRICK" $verb --json --file "$TARGETS/ticker")" ]
  done
  [ "$with" = "$without" ]
  [ "$(entries | wc -l)" -eq 2 ]
  for verb in count latency; do
    rm -r "$XDG_CACHE_HOME"
    "$PINPRICK" $verb --no-cache tick -- "$TARGETS/ticker" </dev/null >/dev/null 2>&1
    [ -z "$(entries)" ]
    "$PINPRICK" $verb tick -- "$TARGETS/ticker" </dev/null >/dev/null 2>&1
    [ -n "$(entries)" ]
  done
}

@test "what is kept is the user's alone" {
  "$PINPRICK" list --file "$TARGETS/ticker" >/dev/null
  [ "$(stat -c %a "$XDG_CACHE_HOME/pinprick")" = 700 ]
  [ -z "$(find "$XDG_CACHE_HOME/pinprick" -type f ! -perm 600)" ]
}

@test "a cache that cannot be had, or is damaged, makes no difference" {
  local right file
  right=$("$PINPRICK" list --no-cache --file "$TARGETS/ticker")
  # No folder can be made there.
  : >"$work/file"
  [ "$(XDG_CACHE_HOME=$work/file "$PINPRICK" list --file "$TARGETS/ticker" 2>&1)" = "$right" ]
  [ "$(XDG_CACHE_HOME=/proc/none "$PINPRICK" list --file "$TARGETS/ticker" 2>&1)" = "$right" ]
  "$PINPRICK" list --file "$TARGETS/ticker" >/dev/null
  for file in $(entries); do
    printf 'nonsense' | dd of="$XDG_CACHE_HOME/pinprick/$file" bs=1 seek=60 conv=notrunc 2>/dev/null
  done
  [ "$("$PINPRICK" list --file "$TARGETS/ticker" 2>&1)" = "$right" ]
  for file in $(entries); do : >"$XDG_CACHE_HOME/pinprick/$file"; done
  [ "$("$PINPRICK" list --file "$TARGETS/ticker" 2>&1)" = "$right" ]
  chmod 777 "$XDG_CACHE_HOME/pinprick"
  [ "$("$PINPRICK" list --file "$TARGETS/ticker" 2>&1)" = "$right" ]
  [ "$(stat -c %a "$XDG_CACHE_HOME/pinprick")" = 700 ]
}

@test "a second attach finds what the first has decoded" {
  local kept
  start_fed ticker
  "$PINPRICK" count -p $fed -d 0.1 tick >/dev/null
  kept=$(entries)
  [ -n "$kept" ]
  "$PINPRICK" count -p $fed -d 0.1 tick >/dev/null
  [ "$(entries)" = "$kept" ]
}

@test "where no file can grow, as on a full disk, nothing is kept, and that is no error" {
  local right
  right=$("$PINPRICK" list --no-cache --file "$TARGETS/ticker")
  [ "$(ulimit -f 0; "$PINPRICK" list --file "$TARGETS/ticker" 2>&1)" = "$right" ]
  [ -z "$(entries)" ]
}
