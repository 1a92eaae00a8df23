"""Runs pieces of Python for the tests of one file, each of which would else start a python3 of its own.

evaluate.py FOLDER PID: reads what to run from the FIFO FOLDER/ask, and writes the outcome to
FOLDER/answer, until the process PID has ended. Who asks takes the byte out of the FIFO FOLDER/turn, and
puts it back when it has its answer. What is asked: a name for the answer, a working
directory, the number of arguments, and the arguments, of which the first one is the code. What is
answered: the name, the exit status, what went to stderr, and what went to stdout. Each is followed by a
zero byte.
"""
import contextlib
import io
import os
import select
import sys
import traceback

# First of all, as a pipe that a test closes is not closed before it is closed here.
os.closerange(3, 4096)


def run(code, arguments):
    """The exit status, stderr and stdout of the code."""
    out, err = io.StringIO(), io.StringIO()
    status = 0
    sys.argv = ['-c', *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(compile(code, '<test>', 'exec'), {'__name__': '__main__'})
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                status = int(end.code or 0)
            else:
                status = 1
                print(end.code, file=err)
        except BaseException:  # a test wants to see any
            status = 1
            traceback.print_exc(file=err)
    return status, err.getvalue(), out.getvalue()


def main(folder, pid):
    os.mkfifo(folder + '/answer', 0o600)
    os.mkfifo(folder + '/turn', 0o600)
    os.mkfifo(folder + '/new', 0o600)
    # Both ways, so that neither ends when a test does.
    ask = os.open(folder + '/new', os.O_RDWR)
    answer = os.open(folder + '/answer', os.O_RDWR)
    turn = os.open(folder + '/turn', os.O_RDWR)
    os.write(turn, b'.')
    os.rename(folder + '/new', folder + '/ask')
    ended = os.pidfd_open(pid)
    asked = b''

    def next_word():
        nonlocal asked
        while b'\0' not in asked:
            readable, _, _ = select.select([ask, ended], [], [])
            if ended in readable:
                sys.exit()
            asked += os.read(ask, 65536)
        word, asked = asked.split(b'\0', 1)
        return os.fsdecode(word)

    while True:
        name, where, count = next_word(), next_word(), int(next_word())
        code, *arguments = [next_word() for _ in range(count)]
        os.chdir(where)
        outcome = run(code, arguments)
        os.chdir('/')  # a test may want to unmount
        words = os.fsencode('\0'.join([name, *map(str, outcome), '']))
        while words:
            words = words[os.write(answer, words):]


main(sys.argv[1], int(sys.argv[2]))
