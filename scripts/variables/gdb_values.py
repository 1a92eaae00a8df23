"""What gdb does for check-variables: tells names by scope, or values at hits.

Executed by gdb. The environment has the paths of what is given, of what is found, and of a file that
appears when all breakpoints are there.
"""
import json
import os
import random
import struct
import time

import gdb

LONGEST_TEXT = 80  # bytes

for setting in ('pagination off', 'confirm off', 'debuginfod enabled off', 'print symbol off'):
    try:
        gdb.execute('set ' + setting)
    except gdb.error:
        pass  # this gdb is older
with open(os.environ['CHECK_GIVEN']) as file:
    given = json.load(file)


def levels_at(address):
    """By name: symbols of the function, or inlined function, and of those that it was inlined into."""
    block, found, names = gdb.block_for_pc(address), [], {}
    while block and not block.is_static and not block.is_global:
        for symbol in block:
            if symbol.is_variable or symbol.is_argument or symbol.is_constant:
                names.setdefault(symbol.name, symbol)
        if block.function:
            found.append(names)
            names = {}
        block = block.superblock
    return found


INTEGERS = (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR, gdb.TYPE_CODE_BOOL)


def kind_of(type):
    type = type.strip_typedefs()
    if type.code in INTEGERS:
        return 'number' if type.sizeof in (1, 2, 4, 8) else 'wide'
    if type.code == gdb.TYPE_CODE_PTR:
        to = type.target().strip_typedefs()
        if to.code in INTEGERS and to.sizeof == 1 and to.code != gdb.TYPE_CODE_BOOL:
            return 'text'
        return 'pointer to structure' if to.code in (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION) else \
            'pointer to function' if to.code == gdb.TYPE_CODE_FUNC else 'pointer'
    if type.code == gdb.TYPE_CODE_ARRAY:
        to = type.target().strip_typedefs()
        return 'text' if to.code in INTEGERS and to.sizeof == 1 else 'array'
    return {gdb.TYPE_CODE_ENUM: 'enumeration', gdb.TYPE_CODE_FLT: 'floating-point number',
            gdb.TYPE_CODE_STRUCT: 'structure', gdb.TYPE_CODE_UNION: 'structure'}.get(type.code, 'other')


def members_of(type, depth=0):
    """Paths of members that have one value."""
    found = []
    for field in type.strip_typedefs().fields():
        if not hasattr(field, 'bitpos') or field.is_base_class:
            continue
        kind = kind_of(field.type)
        if kind == 'structure' and depth < 2:
            inner = members_of(field.type, depth + 1)
            found += [[field.name] + path for path in inner] if field.name else inner
        elif field.name and kind in ('number', 'enumeration', 'pointer', 'pointer to structure', 'text',
                                     'pointer to function'):
            found.append([field.name])
    return found


def described(address):
    chosen = random.Random(address)
    result = []
    for level in levels_at(address):
        of_level = {}
        for name, symbol in level.items():
            kind = kind_of(symbol.type)
            of_level[name] = [kind, []]
            if kind == 'pointer to structure':
                paths = members_of(symbol.type.strip_typedefs().target())
                of_level[name][1] = chosen.sample(paths, min(2, len(paths)))
        result.append(of_level)
    return result


def is_changed(address, size):
    """Do pinprick and gdb see different bytes there? A breakpoint of gdb, or the unused part of the stack,
    where the probe has its own values."""
    top = int(gdb.newest_frame().read_register('rsp')) & (1 << 64) - 1
    is_unused = top - 65536 <= address < top - 128
    return is_unused or any(address <= site[1] < address + size for site in given.get('sites', []))


def shown(value):
    """What could be compared: the number, the name of an enumerator, the text."""
    try:
        if value.is_optimized_out:
            return {'none': 'optimized out'}
        kind = kind_of(value.type)
        told = {'kind': kind, 'bytes': value.type.sizeof}
        if kind == 'enumeration':
            told['name'] = str(value)
        if kind == 'pointer to function':
            gdb.execute('set print symbol on')
            told['name'] = str(value)
            gdb.execute('set print symbol off')
        if kind.startswith('pointer') and 'synthetic' in value.format_string(symbols=False):
            return {'none': 'synthetic pointer'}
        if kind in ('floating-point number', 'structure', 'other', 'wide', 'array'):
            value.fetch_lazy()
            return told
        if value.type.strip_typedefs().code == gdb.TYPE_CODE_ARRAY:
            told['array'] = int(value.type.strip_typedefs().sizeof) or LONGEST_TEXT  # its end may be open
        else:
            told['number'] = int(value)
        if kind == 'text':
            address = int(value.address) if 'array' in told else told['number']
            text, inferior = b'', gdb.selected_inferior()
            try:
                while b'\0' not in text and len(text) < min(told.get('array', LONGEST_TEXT), LONGEST_TEXT):
                    text += bytes(inferior.read_memory(address + len(text), 1))
            except (gdb.error, gdb.MemoryError):
                text = None if not text else text
            told['text'] = None if text is None else text.split(b'\0')[0].decode('latin-1')
            told['is_changed'] = is_changed(address, LONGEST_TEXT)
        elif value.address is not None:
            told['is_changed'] = is_changed(int(value.address), value.type.sizeof)
        return told
    except (gdb.error, gdb.MemoryError) as error:
        return {'none': 'optimized out' if 'optimized out' in str(error) else str(error)}


def at_hit(asked, symbols):
    frame = gdb.newest_frame()
    values = {}
    for name, path in asked:
        address = None
        key = name + ''.join('.' + part for part in path)
        try:
            value = symbols[name].value(frame)
            address = None if value.address is None else int(value.address)
            if path and value.is_optimized_out:
                values[key] = {'none': 'optimized out'}
                continue
            if path:
                value = value.dereference()
            for part in path:
                value = value[part]
            values[key] = dict(shown(value), address=address)
        except (gdb.error, gdb.MemoryError) as error:
            why = 'optimized out' if 'optimized out' in str(error) else str(error)
            values[key] = {'none': why, 'address': address}
    # Where the caller of a function puts its arguments.
    registers = [int(frame.read_register(name)) & (1 << 64) - 1
                 for name in ('rdi', 'rsi', 'rdx', 'rcx', 'r8', 'r9', 'rsp')]
    stack = bytes(gdb.selected_inferior().read_memory(registers[-1] + 8, 160))
    values['%passed'] = {'registers': registers, 'stack': struct.unpack('<20Q', stack)}
    return values


found = {}


class At(gdb.Breakpoint):
    def __init__(self, key, address, level, asked):
        gdb.Breakpoint.__init__(self, '*%d' % address, internal=True)
        self.key, self.asked, self.symbols = key, asked, levels_at(address)[level]
    def stop(self):
        hits = found.setdefault(self.key, [])
        if len(hits) < given['hits']:
            hits.append(at_hit(self.asked, self.symbols))
        if len(hits) == given['hits']:
            self.enabled = False
        return False


if 'addresses' in given:
    with open(os.environ['CHECK_FOUND'], 'w') as file:
        json.dump({address: described(address) for address in given['addresses']}, file)
else:
    for signal in ('SIGALRM', 'SIGPIPE', 'SIGTERM'):
        gdb.execute('handle %s nostop noprint pass' % signal)
    gdb.execute('handle SIGUSR1 stop print nopass')
    for site in given['sites']:
        At(*site)
    with open(os.environ['CHECK_READY'], 'w'):
        pass
    found['time_ns'] = time.time_ns()
    gdb.execute('continue')
    with open(os.environ['CHECK_FOUND'], 'w') as file:
        json.dump(found, file)
    gdb.execute('delete')
    gdb.execute('detach')
