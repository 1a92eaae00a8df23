-- Errors (longjmp), coroutines, strings, tables.
local function deep(n) if n == 0 then error('bottom') end return 1 + deep(n - 1) end
local function round()
  local sum = 0
  local function add(text)
    for i = 1, #text do sum = (sum * 31 + text:byte(i)) % 4294967291 end
  end
  for i = 0, 300 do
    local ok, message = pcall(deep, i % 150)
    add(tostring(ok) .. message)
  end
  local co = coroutine.wrap(function() for i = 1, 500 do coroutine.yield(i * i) end error('over') end)
  for _ = 1, 500 do add(tostring(co())) end
  add(tostring(select(2, pcall(co))))
  local words = {}
  for i = 0, 5000 do words[#words + 1] = 'w' .. (i * 7919 % 10007) end
  table.sort(words)
  add((table.concat(words, ' '):gsub('w(%d)', '%1w')))
  collectgarbage()
  return sum
end
local first = round()
print(first)
io.stdout:flush()
local n = 1
while true do
  local stop = io.open(arg[1])
  if stop then stop:close() end
  if n >= 3 and stop then break end
  if round() ~= first then print('MISMATCH in round', n) os.exit(1) end
  n = n + 1
end
print('done')
