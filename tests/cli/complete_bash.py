#!/usr/bin/env python3
"""What an interactive bash offers for a command line: each of COMPREPLY on a line, as readline gets it.

Usage: complete_bash.py FILE LINE, where FILE has the completion of pinprick. The shell runs on a
terminal of its own, so that readline splits the line, and the key TAB is what asks it.
"""
import os
import pty
import select
import sys
import tempfile

file, line = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    answers = f'{folder}/answers'
    os.mkfifo(answers)
    rc = f'{folder}/rc'
    with open(rc, 'w') as out:
        out.write(f'''
PS1= PS2=
source '{file}'
told() {{ _pinprick "$@"; printf '%s\\n' "${{COMPREPLY[@]}}" END >'{answers}'; COMPREPLY=(); }}
complete -F told pinprick
''')
    child, terminal = pty.fork()
    if child == 0:
        os.execvp('bash', ['bash', '--noprofile', '--rcfile', rc, '-i'])
    reader = os.open(answers, os.O_RDONLY | os.O_NONBLOCK)
    os.write(terminal, line.encode() + b'\t')
    answer = b''
    while not answer.endswith(b'END\n'):
        ready, _, _ = select.select([reader, terminal], [], [], 20)
        if not ready:
            sys.exit('no answer')
        if terminal in ready:  # or the shell would wait for someone to read it
            os.read(terminal, 4096)
        if reader in ready:
            answer += os.read(reader, 65536)
    os.write(terminal, b'\x15exit\n')
    os.close(terminal)
    os.waitpid(child, 0)
    print(answer.decode()[:-len('END\n')], end='')
