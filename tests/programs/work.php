<?php
// Arrays, regular expressions, exceptions, compression.
function deep($n) { if ($n == 0) throw new RuntimeException('bottom'); return 1 + deep($n - 1); }
function round_of_work() {
  $h = hash_init('sha256');
  for ($i = 0; $i < 300; ++$i) try { deep($i); } catch (RuntimeException $e) { hash_update($h, $e->getMessage()); }
  $words = [];
  for ($i = 0; $i < 20000; ++$i) $words[] = 'w' . base_convert($i * 7919 % 10007, 10, 36);
  sort($words);
  $all = implode(' ', $words);
  hash_update($h, preg_replace('/w(\w)/', '$1w', $all));
  hash_update($h, serialize(array_count_values($words)));
  hash_update($h, json_encode($words));
  return hash_final($h);
}
$first = round_of_work();
echo $first, "\n";
for ($n = 1; $n < 3 || !file_exists($argv[1]); ++$n) {
  clearstatcache();
  if (round_of_work() !== $first) { echo "MISMATCH in round $n\n"; exit(1); }
}
echo "done\n";
