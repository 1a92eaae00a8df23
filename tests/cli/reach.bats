# Which kinds of programs can be probed, and how far: docs/reach.md, cell by cell.
load helpers

@test "a program whose code fills its last page" {
  local last
  last=$(readelf -lW "$TARGETS/ticker_full" | awk '$1 == "LOAD" && / R E / { print $3, $6 }')
  [ $(((${last% *} + ${last#* }) % 4096)) -eq 0 ]
  TICKER=ticker_full start_ticker
  watch count -p $ticker ticker_full:tick
  tell "tick 1000" ticked
  end_watch
  [ "$(hits tick)" -eq 1000 ]
  no_trace $ticker
  end_ticker
}
