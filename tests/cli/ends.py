"""Ends of processes, as a table: how they end x how many threads are in timed functions x the verb x
whether the program was attached to or started. Prints the cases that are wrong, each with what is.

    ends.py PROGRAM HOW...
"""
import json
import os
import subprocess
import sys
import tempfile
import time

PINPRICK = os.environ['PINPRICK']
CALLS = 10
STATUS = {'return': 0, '_exit': 0, 'exit-in-thread': 0, 'leaderless': 0, 'exec': 0,
          'exec-in-thread': 0, 'leak': 1, 'abort': 134, 'signal9': 137, 'signal11': 139,
          'signal15': 143}
PATTERNS = {'count': ['work', 'waits'], 'latency': ['work', 'waits'], 'hist': ['work $arg1']}


def records(path):
    with open(path) as file:
        return [json.loads(line) for line in file.read().split('\n')[:-1]]


def wait_until_armed(path):
    deadline = time.monotonic() + 60
    while not any(r['type'] == 'armed' for r in records(path)):
        if time.monotonic() > deadline:
            sys.exit('never armed')
        time.sleep(0.002)  # between two looks


def expected(verb, threads):
    if verb == 'count':
        return {'work': threads * CALLS, 'waits': threads}
    return {'work': threads * CALLS, 'waits': 0} if verb == 'latency' else {'work': threads * CALLS}


def run(program, how, threads, verb, is_started, path):
    open(path, 'w').close()
    command = [program, how, str(threads), str(CALLS)]
    if how.startswith('exec'):
        command.append('/bin/cat')  # until its input ends
    pinprick = [PINPRICK, verb, '--json', '-o', path] + PATTERNS[verb]
    pipes = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'stderr': subprocess.DEVNULL}
    if is_started:
        watcher = process = subprocess.Popen(pinprick + ['--'] + command, **pipes)
    else:
        process = subprocess.Popen(command, **pipes)
        process.stdout.readline()
        watcher = subprocess.Popen(pinprick + ['-p', str(process.pid)], **pipes)
    wait_until_armed(path)
    process.stdin.write(b'go\n')
    process.stdin.flush()
    if not is_started and how.startswith('exec'):
        watcher.wait()
    try:
        process.stdin.close()
    except BrokenPipeError:
        pass
    status = watcher.wait(timeout=60)
    process.wait(timeout=60)
    return status, records(path)


def faults(how, threads, verb, is_started, status, found):
    if status != (STATUS[how] if is_started else 0):
        yield f'exit status {status}'
    rows = {r['function']: r for r in found if r['type'] == verb and r['final']}
    for function, count in expected(verb, threads).items():
        row = rows.get(function, {})
        if row.get('hits', row.get('count')) != count:
            yield f'{function}: {row}'
        if any(row.get(field) for field in ('missed', 'unwound', 'abandoned', 'ended')):
            yield f'{function}: {row}'
    detached = [r for r in found if r['type'] == 'detached']
    # Of a program that was started and executes another, that may have ended by then.
    replaced = [True, False] if how.startswith('exec') and is_started else [how.startswith('exec')]
    if len(detached) != 1 or not detached[0]['target_gone'] or detached[0]['replaced'] not in replaced:
        yield f'detached: {detached}'
    for r in found:
        is_told = how.startswith('exec') and r['type'] == 'warning' and 'has executed' in r['message']
        if r['type'] not in ('armed', 'detached', verb) and not is_told:
            yield str(r)


def main():
    program, *ways = sys.argv[1:]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for how in ways:
            for threads in 1, 64:
                for verb in PATTERNS:
                    for is_started in False, True:
                        status, found = run(program, how, threads, verb, is_started,
                                            os.path.join(folder, 'records'))
                        for fault in faults(how, threads, verb, is_started, status, found):
                            print(how, threads, verb, '--' if is_started else '-p', fault)
                            wrong += 1
    sys.exit(1 if wrong else 0)


main()
