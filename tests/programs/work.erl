%% Processes, exceptions, binaries, the collector of each process.
-module(work).
-export([main/1]).
deep(0) -> throw(bottom);
deep(N) -> 1 + deep(N - 1).
round() ->
  Caught = [try deep(N rem 200) catch throw:T -> {T, N} end || N <- lists:seq(1, 500)],
  Self = self(),
  [spawn(fun() -> Self ! {N, lists:sum(lists:seq(1, N))} end) || N <- lists:seq(1, 200)],
  Sums = [receive {N, S} -> S end || N <- lists:seq(1, 200)],
  Words = lists:sort([integer_to_list(I * 7919 rem 10007, 36) || I <- lists:seq(1, 5000)]),
  erlang:md5(term_to_binary({Caught, Sums, Words, zlib:gunzip(zlib:gzip(Words))})).
again(First, N, Stop) ->
  case N < 3 orelse not filelib:is_file(Stop) of
    false -> io:format("done~n"), halt(0);
    true ->
      case round() of
        First -> again(First, N + 1, Stop);
        _ -> io:format("MISMATCH in round ~p~n", [N]), halt(1)
      end
  end.
main([Stop]) ->
  First = round(),
  io:format("~p~n", [First]),
  again(First, 1, atom_to_list(Stop)).
