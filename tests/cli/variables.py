"""Compares what hits tell of variables with what gdb prints at the same instructions.

    variables.py PROGRAM SOURCE [stored]

With `stored`, the first instructions of functions store the parameters, and gdb looks after that.

The program answers each line of its input with the same calls. SOURCE marks lines by `line: NAME`.
Prints how many values are the same, how many neither side knows, and each that differs; fails if any
does, or if gdb knows one that is missing here for a reason that is not in MISSING.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

PINPRICK = os.environ['PINPRICK']
HITS = 7
# At each place: what is asked for besides the variables that are numbers.
OF_REQUEST = ['r->peer->port', 'r->peer->city', 'r->peer->low', 'r->peer->high', 'r->peer->below',
              'r->peer->wide', 'r->name', 'r->grid[1][2]',
              'r->packed.first', 'r->packed.second', 'r->items[2]', 'r->kind', 'r->number', 'r->bytes[1]',
              'r->nested.inner', 'r->next->next->peer->port', '*r->items', 'r->peer[0].port']
PLACES = {
    'serve': OF_REQUEST + ['n', 'flags', 'far', 'total', 'level', 'r->items[n%6]'],
    'many': ['a', 'b', 'c', 'e', 'f', 'g', 'h', 'by_value.all[4]', 'text', 'calls'],
    'in_parts': ['pair.left', 'pair.right', 'after'],
    '@loop': OF_REQUEST + ['sum', 'part', 'i', 'n', 'flags', 'r->items[i]'],
    '@inlined': ['sum', 'by', 'of->items[3]', 'of->peer->port'],
    '@after': OF_REQUEST + ['sum', 'n', 'far'],
    '@many': ['all', 'a', 'b', 'g', 'by_value.all[4]', 'calls'],
    '@parts': ['both', 'after', 'pair.left', 'pair.right'],
}
# Why a value is missing that gdb has: it looks further than an instruction.
MISSING = ('optimized away', 'only the caller knows', 'in a place that pinprick does not understand')

GDB = '''
import gdb, json
gdb.execute('set pagination off')
gdb.execute('set confirm off')
found = {}
def text_of(value):
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_ARRAY):
        return value.string()
    return str(value) if kind.code == gdb.TYPE_CODE_ENUM else int(value)
class At(gdb.Breakpoint):
    def __init__(self, where, key, asked):
        gdb.Breakpoint.__init__(self, where, internal=True)
        self.key, self.asked = key, asked
    def stop(self):
        hits = found.setdefault(self.key, [])
        if len(hits) < HITS:
            hits.append({})
            for asked in self.asked:
                try:
                    hits[-1][asked] = text_of(gdb.parse_and_eval(asked))
                except (gdb.error, gdb.MemoryError) as error:
                    hits[-1][asked] = [str(error)]
        return False
gdb.execute('starti < INPUT > /dev/null')
base = int(gdb.execute('info proc mappings', to_string=True).split('PROGRAM')[0].split()[-5], 16)
for key, (where, asked) in PLACES.items():
    At(where if isinstance(where, str) else '*%d' % (base + where), key, asked)
gdb.execute('continue')
with open('OUTPUT', 'w') as file:
    json.dump(found, file)
'''


def run_gdb(program, places, work):
    """By place: a list of hits, each with values by expression; an error is a list."""
    script, output, given = (os.path.join(work, name) for name in ('gdb.py', 'gdb.json', 'input'))
    with open(given, 'w') as file:
        file.write('go\n')
    text = GDB.replace('OUTPUT', output).replace('INPUT', given).replace('PROGRAM', program)
    text = text.replace('HITS', str(HITS)).replace('PLACES', repr(places))
    with open(script, 'w') as file:
        file.write(text)
    done = subprocess.run(['gdb', '-nx', '-batch', '-x', script, program], capture_output=True, text=True)
    if not os.path.exists(output):
        sys.exit(f'gdb failed: {done.stdout} {done.stderr}')
    with open(output) as file:
        return json.load(file)


def pinprick(*arguments, **options):
    return subprocess.run([PINPRICK, *arguments], capture_output=True, text=True, **options)


def records(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def refusal(program, site, asked, where, work):
    """Why an expression has no value at the site, or None. `where` has the places of variables."""
    root = re.match(r'[*(]*(\w+)', asked)[1]
    known = where.get(root, '')
    if not known or known.startswith(('in %', 'at ', 'is ', '$arg', 'computed')):
        return None
    path = os.path.join(work, 'tried')
    tried = pinprick('trace', '--json', '-o', path, f'{site} {asked}', '--', program, input='')
    return None if tried.returncode == 0 else records(path)[-1]['message']


def run_trace(program, asked_at, work):
    """By site: a list of hits, each with values by expression. An event has 14 values at most."""
    most = 14
    found = collections.defaultdict(list)
    path = os.path.join(work, 'records')
    for first in range(0, max(map(len, asked_at.values())), most):
        texts = [f'{site} ' + ' '.join(f'v{i}={one}' for i, one in enumerate(asked[first:first + most], first))
                 for site, asked in asked_at.items() if asked[first:]]
        done = pinprick('trace', '--json', '-o', path, *texts, '--', program, input='go\n')
        if done.returncode != 0:
            sys.exit(f'trace failed: {records(path)[-1]}')
        hits = collections.Counter()
        for record in records(path):
            if record['type'] != 'event':
                continue
            site = record['function']
            if hits[site] == len(found[site]):
                found[site].append({})
            found[site][hits[site]].update(record['values'])
            hits[site] += 1
    return found


def main():
    program, source = sys.argv[1:3]
    with open(source) as file:
        lines = {m[1]: i for i, text in enumerate(file, 1) if (m := re.search(r'// line: (\w+)', text))}
    file_name = os.path.basename(source)
    same = neither = 0
    missing, wrong = [], []
    with tempfile.TemporaryDirectory() as work:
        asked_at, places, names, asked_of = {}, {}, {}, {}
        for place, asked in PLACES.items():
            site = f'@{file_name}:{lines[place[1:]]}' if place[0] == '@' else place
            listed = pinprick('list', '--vars', '--json', '-f', program, site)
            row = json.loads(listed.stdout.splitlines()[0])
            if row['function'] not in (site, site[1:]):
                print(f'{place}: the compiler has moved it to {row["function"]}')
                continue
            where = {one['name']: one['where'] for one in row['variables']}
            usable = []
            for one in asked:
                why = refusal(program, site, one, where, work)
                if why:
                    missing.append((place, one, why))
                else:
                    usable.append(one)
            asked_at[site] = usable
            names[place], asked_of[place] = row['function'], usable
            is_later = place[0] != '@' and sys.argv[3:] == ['stored']
            places[place] = (site if is_later else row['address'], asked)
        by_gdb = run_gdb(program, places, work)
        by_us = run_trace(program, asked_at, work)
        for place, usable in asked_of.items():
            theirs, ours = by_gdb.get(place, []), by_us[names[place]]
            if not theirs or len(ours) < len(theirs):
                wrong.append(f'{place}: {len(ours)} hits, gdb has {len(theirs)}')
            for number, (hit, own) in enumerate(zip(theirs, ours)):
                for i, one in enumerate(usable):
                    if hit[one] == own[f'v{i}'] or (isinstance(hit[one], list) and own[f'v{i}'] is None):
                        same += 1
                    else:
                        wrong.append(f'{place} {one}, hit {number}: {own[f"v{i}"]}, gdb has {hit[one]}')
        for place, one, why in missing:
            known = [hit[one] for hit in by_gdb.get(place, []) if not isinstance(hit[one], list)]
            if not known:
                neither += 1
            elif not any(reason in why for reason in MISSING):
                wrong.append(f'{place} {one}: gdb has {known[0]}, and here: {why}')
    print(f'{same} the same, {neither} known to neither, {len(missing) - neither} to gdb alone')
    print('\n'.join(wrong[:20]))
    sys.exit(1 if wrong or same == 0 else 0)


main()
