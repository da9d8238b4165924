#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The preloaded library calls no function of the C library in which a thread can be cancelled: locks would stay held, and calls half made (shim/uncancelled.h).

    test_uncancelled.py LIBRARY
"""
import subprocess
import sys

# The cancellation points that glibc 2.35 and POSIX name, without those that only differ in a 64 at the end.
POINTS = set("""
accept accept4 aio_suspend clock_nanosleep close closedir close_range confstr connect copy_file_range creat dprintf endmntent epoll_pwait epoll_pwait2 epoll_wait fallocate
fclose fcntl fdatasync fflush fgetc fgets fgetwc fgetws fopen fopencookie fprintf fputc fputs fputwc fputws fread freopen fscanf fseek fseeko fsync ftell ftw fwrite fwprintf fwscanf
getaddrinfo getc getc_unlocked getchar getdelim getline getmsg getnameinfo getpmsg getrandom gets getwc getwchar glob lockf mkostemp mkstemp
mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep nftw open openat opendir openlog pause pclose perror poll popen posix_fallocate ppoll pread
preadv preadv2 printf pselect pthread_clockjoin_np pthread_cond_clockwait pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel pthread_timedjoin_np putc putchar
puts putwc pwrite pwritev pwritev2 read readdir readdir_r readv recv recvfrom recvmmsg recvmsg scandir scanf select sem_clockwait sem_timedwait sem_wait semop semtimedop send sendfile
sendmmsg sendmsg sendto setvbuf sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep splice sync_file_range syslog system tcdrain tee tmpfile usleep vdprintf vfprintf vmsplice vprintf
vsyslog wait wait3 wait4 waitid waitpid wprintf write writev
""".split())
# Name, and why it does no harm where it is called.
EXCEPTIONS = {}


def plain(symbol):
    """Without version, and as it is named without -D_FORTIFY_SOURCE or 64 bits."""
    name = symbol.partition("@")[0]
    if name.startswith("__") and name.endswith("_chk"):
        name = name[2:-4]
    name = name.removeprefix("__") if name in ("__read", "__write", "__open", "__close", "__poll", "__select", "__fcntl", "__open64_2", "__open_2") else name
    return name.removesuffix("_2").removesuffix("64") if name.startswith(("open", "fallocate", "pread", "pwrite", "fopen", "fcntl", "creat", "readdir", "sendfile", "scandir",
                                                                        "ftw", "nftw", "lockf", "mkstemp", "mkostemp", "tmpfile", "fseeko", "glob", "posix_fallocate")) else name


def found_in(library):
    lines = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split()[-1] for line in lines]
    if not symbols:
        sys.exit(f"{library} has no undefined symbols: nothing was looked at")
    return sorted(symbol for symbol in symbols if plain(symbol) in POINTS)


def main():
    for symbol in ("read@GLIBC_2.2.5", "open64", "__open64_2", "__read_chk", "fallocate64@GLIBC_2.10", "nanosleep"):
        if plain(symbol) not in POINTS:
            sys.exit(f"{symbol} is not told")
    found = found_in(sys.argv[1])
    bad = [symbol for symbol in found if plain(symbol) not in EXCEPTIONS]
    stale = sorted(set(EXCEPTIONS) - {plain(symbol) for symbol in found})
    if bad:
        sys.exit("a thread can be cancelled in: " + ", ".join(bad) + " (shim/uncancelled.h has what to call instead)")
    if stale:
        sys.exit("exceptions that are none: " + ", ".join(stale))


if __name__ == "__main__":
    main()
