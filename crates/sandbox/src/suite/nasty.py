"""Leaves descendants that do not want to die. Each holds a shared lock on the file named first; when all are in
place, the file named second appears. The third argument is the kind, a fourth the exit code to end with at once."""
import fcntl
import os
import signal
import subprocess
import sys
import time

lock, ready, kind = sys.argv[1:4]


def hold():
    fcntl.flock(os.open(lock, os.O_RDWR | os.O_CREAT), fcntl.LOCK_SH)


def deaf():
    for number in range(1, 32):
        if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)


def stay():
    while True:
        time.sleep(1000)


def detached(body):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            body()
            os._exit(0)
        os._exit(0)


def setsid_twice():
    deaf()
    hold()
    arrived()
    stay()


def daemon():
    os.chdir("/")
    os.closerange(0, 1000)
    os.setsid()
    deaf()
    hold()
    arrived()
    stay()


def loop():
    deaf()
    hold()
    arrived()
    while True:
        if os.fork() != 0:
            os._exit(0)
        os.setsid()


def bomb():
    # Grows, but not without bounds: a test must not take the machine down when it fails.
    deaf()
    hold()
    arrived()
    depth = 0
    while depth < 5:
        os.fork()
        depth += 1
    while True:
        if os.fork() != 0:
            os._exit(0)
        time.sleep(0.002)


count = os.pipe()


def arrived():
    os.write(place, b"x")


# Where a daemon does not look, and below the limit of small systems.
place = os.dup2(count[1], 1010, inheritable=True)
expected = 0
if kind == "setsid":
    for _ in range(3):
        detached(setsid_twice)
    expected = 3
elif kind == "nohup":
    fd = os.open(lock, os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_SH)
    subprocess.Popen(["nohup", "sleep", "1000"], stderr=subprocess.DEVNULL, pass_fds=[fd])
    shell = "trap '' TERM HUP; sleep 1000 & disown -a; (setsid sleep 1000 &); sleep 1000; sleep 1000"
    subprocess.Popen(["bash", "-c", shell], pass_fds=[fd])
elif kind == "daemon":
    detached(daemon)
    expected = 1
elif kind == "loop":
    for _ in range(12):
        detached(loop)
    expected = 12
elif kind == "bomb":
    detached(bomb)
    expected = 1
else:
    sys.exit("unknown kind " + kind)
while expected:
    expected -= len(os.read(count[0], expected))
open(ready, "w").close()
if len(sys.argv) > 4:
    os._exit(int(sys.argv[4]))
deaf()
hold()
stay()
