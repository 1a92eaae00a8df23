" Exceptions, substitutions, sorting, lists.
function! Deep(n)
  if a:n == 0 | throw 'bottom' | endif
  return 1 + Deep(a:n - 1)
endfunction
function! Round()
  let all = ''
  for i in range(200)
    try | call Deep(i % 50) | catch /bottom/ | let all .= v:exception . i | endtry
  endfor
  enew!
  call setline(1, map(range(2000), '"w" . (v:val * 7919 % 10007)'))
  sort
  %s/w\(\d\)/\1w/
  let all .= join(getline(1, '$'))
  return sha256(all)
endfunction
let first = Round()
call writefile([first], '/dev/stdout', 'a')
let n = 1
while n < 3 || !filereadable($STOP)
  if Round() !=# first | call writefile(['MISMATCH in round ' . n], '/dev/stdout', 'a') | cquit | endif
  let n += 1
endwhile
call writefile(['done'], '/dev/stdout', 'a')
qall!
