# Hot loops that a compiler at run time takes up, calls into C, exceptions, a collector at work.
import binascii, gc, hashlib, json, math, os, re, struct, sys, zlib


class Node:
    def __init__(self, left, right):
        self.left, self.right = left, right


def tree(depth):
    return None if depth == 0 else Node(tree(depth - 1), tree(depth - 1))


def count(node):
    return 0 if node is None else 1 + count(node.left) + count(node.right)


def deep(n):
    if n == 0:
        raise ValueError('bottom')
    return 1 + deep(n - 1)


def one_round():
    h = hashlib.sha256(str(count(tree(12))).encode())
    for i in range(100):
        try:
            deep(i)
        except ValueError as error:
            h.update(str(error).encode())
    total = 0.0
    for i in range(30000):
        total += math.floor(math.sqrt(i)) + math.sin(i) + math.fmod(i, 7.0)
    h.update(struct.pack('d', total))
    for i in range(300):
        h.update(struct.pack('I', binascii.crc32(zlib.compress(bytes(i)))))
    words = sorted(re.findall(r'[a-z]+', ' '.join(str(i) + 'ab' * (i % 7) for i in range(3000))))
    h.update(json.dumps(words).encode())
    gc.collect()
    return h.hexdigest()


first = one_round()
print(first, flush=True)
n = 1
while n < 3 or not os.path.exists(sys.argv[1]):
    if one_round() != first:
        print('MISMATCH in round', n)
        sys.exit(1)
    n += 1
print('done')
