#!/usr/bin/env python3
"""Runs a command for which the kernel does not have some system calls: they return ENOSYS.

Usage: no_syscall.py NUMBER[,NUMBER...] COMMAND [ARGUMENT...]. Exits with 77 where no seccomp filter
can be installed.
"""
import ctypes
import errno
import os
import struct
import sys

numbers = [int(number) for number in sys.argv[1].split(',')]


def statement(code, k, if_true=0, if_false=0):
    return struct.pack('HBBI', code, if_true, if_false, k)


LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7fff0000, 0x00050000 | errno.ENOSYS
program = statement(LOAD, 0)  # the number of the call
for number in numbers:
    program += statement(JUMP_IF_EQUAL, number, 0, 1) + statement(RETURN, REFUSE)
program += statement(RETURN, ALLOW)

buffer = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(
    struct.pack('HxxxxxxP', len(program) // 8, ctypes.addressof(buffer)))
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
libc = ctypes.CDLL(None)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, filter):
    sys.exit(77)
os.execvp(sys.argv[2], sys.argv[2:])
