"""The work of `check-variables python`: some of everything of the interpreter."""
import sys

sys.stdin.readline()
def work():
    import re, json, collections, string, itertools
    found = collections.OrderedDict()
    for i, word in enumerate("the quick brown fox jumps over the lazy dog".split() * 2):
        found[word] = found.get(word, 0) + len(word) * i
    text = json.dumps({"found": found, "list": [1.5, None, True, -2**70, "a\u1234b"]})
    again = json.loads(text)
    text = re.sub(r"(o|e)[a-z]?", lambda m: m[1].upper(), text)
    class Node:
        __slots__ = ("left", "right")
        def __init__(self, left, right): self.left, self.right = left, right
        def __eq__(self, other): return self.left == other.left
    class Derived(Node):
        kind = property(lambda self: sorted([self.left, self.right]))
    def generate(n):
        try:
            for i in range(n): yield i * i // 3 % 7 ** 2
        finally:
            found["closed"] = n
    node = Derived(3, 2)
    total = sum(generate(20)) + node.kind[0] + (node == Derived(3, 4))
    numbers = [2**i * 3 ** (70 - i) - i for i in range(0, 70, 9)]
    total += sum(numbers) % 1000003 + int("123456789" * 4) // 12345678901234567
    pieces = "%s-%r-%5.2f" % ("a", b"bc", 2.5), f"{total:>20,}", "x".join(map(str, numbers))
    data = bytearray(b"some bytes") + bytes(range(9)); data.extend(b"more"); data[2:4] = b"__"
    sets = {1, 2, 3} | {4} - {5} ^ frozenset((1, 9))
    try:
        {}["no such key"]
    except KeyError as error:
        pieces += (repr(error),)
    try:
        int("x")
    except ValueError as error:
        pieces += (str(error),)
    source = "def f(a, *b, c=1, **d):\n  return [x for x in b if x] + [a, c]\nf(1, 2, c=3, e=4)"
    exec(compile(source, "of", "exec"), {})
    words = sorted(string.ascii_letters[::3], key=str.lower, reverse=True)
    pieces += ("".join(words).encode("utf-8").decode("latin-1").translate({97: "b"}).title(),)
    view = memoryview(data)[1:5].tobytes().hex(), "a,b,,c".split(","), "abcabc".replace("bc", "d")
    pieces += ("x\ny".splitlines(), list(zip(range(3), itertools.chain("ab", "cd"), reversed([1, 2, 3]))))
    pieces += (slice(1, 2).indices(5), divmod(-7, 2), round(2.567, 2))
    print(len(text), total, pieces, sets, view, file=sys.stderr)
work()
print("done", flush=True)
sys.stdin.readline()
