// Allocation, regular expressions, exceptions, sorting, hashing: V8's collector and its compilers at work.
const fs = require('fs');
const crypto = require('crypto');
const zlib = require('zlib');

class Node {
  constructor(left, right) { this.left = left; this.right = right; }
}
const tree = depth => depth === 0 ? null : new Node(tree(depth - 1), tree(depth - 1));
const count = node => node === null ? 0 : 1 + count(node.left) + count(node.right);
const deep = n => { if (n === 0) throw new Error('bottom'); return 1 + deep(n - 1); };

function round() {
  const hash = crypto.createHash('sha256');
  hash.update(String(count(tree(13))));
  let caught = 0;
  for (let i = 0; i < 200; ++i) try { deep(i); } catch (e) { caught += e.message.length; }
  hash.update(String(caught));
  const words = [];
  for (let i = 0; i < 5000; ++i) words.push('w' + (i * 7919 % 10007).toString(36));
  words.sort();
  hash.update(words.join(' ').replace(/w(\w)/g, '$1w'));
  hash.update(zlib.gunzipSync(zlib.gzipSync(JSON.stringify(words))));
  const object = {};
  for (const word of words) object[word] = (object[word] || 0) + word.length;
  hash.update(JSON.stringify(object));
  return hash.digest('hex');
}

const first = round();
console.log(first);
for (let n = 1; n < 3 || !fs.existsSync(process.argv[2]); ++n)
  if (round() !== first) { console.log('MISMATCH in round', n); process.exit(1); }
console.log('done');
