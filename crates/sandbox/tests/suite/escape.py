"""Tries to get out of the sandbox it runs in. One line per attempt: guarantee, name, result, detail.

The guarantee says which promise a success would break. Run with HOME as the host set it up, in the workspace (a git
repository), with VICTIM (a process of the host), PORT (a listener on the host's loopback), SERVER (the process that
runs the sandbox) and HOST_TMP (a folder in the host's /tmp)."""
import ctypes
import os
import socket
import struct
import subprocess
import sys

HOME = os.environ["HOME"]
VICTIM = int(os.environ["VICTIM"])
SERVER = int(os.environ["SERVER"])
PORT = int(os.environ["PORT"])
HOST_TMP = os.environ["HOST_TMP"]
libc = ctypes.CDLL(None, use_errno=True)
attempts = []


def attempt(guarantee, name):
    return lambda body: attempts.append((guarantee, name, body))


def write(path, mode="a"):
    with open(path, mode) as file:
        file.write("planted\n")
    return path


def read(path):
    with open(path, "rb") as file:
        data = file.read(4096)
    # A cover over a hidden file reads as empty: nothing was learnt.
    return data.decode("latin1")[:40] if data else False


def call(number, *args):
    result = libc.syscall(number, *args)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def connect(family, address, kind=socket.SOCK_STREAM):
    s = socket.socket(family, kind)
    s.settimeout(3)
    s.connect(address)
    return "connected"


# --- files
for place in [
    "~/planted", "~/.bashrc", "~/.profile", "~/.zshrc", "~/.config/autostart/x.desktop", "~/.config/environment.d/x.conf",
    "~/.local/bin/ls", "~/.cargo/bin/x", "~/.cargo/config.toml", "~/.gitconfig", "~/.pam_environment", "~/go/bin/x",
    "/etc/cron.d/planted", "/etc/ld.so.preload", "/etc/passwd", "/etc/profile.d/planted.sh", "/usr/local/bin/planted",
    "/var/spool/cron/planted", "/opt/planted", "/planted",
]:
    attempt("write-fence", "write " + place)(lambda place=place: write(os.path.expanduser(place)))


@attempt("write-fence", "truncate ~/.profile")
def _():
    os.truncate(HOME + "/.profile", 0)


@attempt("write-fence", "unlink ~/.profile")
def _():
    os.unlink(HOME + "/.profile")


@attempt("write-fence", "rename ~/.profile")
def _():
    os.rename(HOME + "/.profile", HOME + "/.moved")


@attempt("write-fence", "mkdir in HOME")
def _():
    os.mkdir(HOME + "/planted-folder")


@attempt("write-fence", "symlink in HOME")
def _():
    os.symlink("/etc/passwd", HOME + "/planted-link")


@attempt("write-fence", "write through a hard link")
def _():
    os.link(HOME + "/.profile", "linked")
    write("linked")


@attempt("write-fence", "write through a symlink in the workspace")
def _():
    os.symlink(HOME + "/.bashrc", "to-bashrc")
    write("to-bashrc")


@attempt("write-fence", "write through a symlinked folder")
def _():
    os.symlink(HOME, "to-home")
    write("to-home/planted")


@attempt("write-fence", "write through /proc/self/root")
def _():
    write("/proc/self/root" + HOME + "/planted")


@attempt("write-fence", "write through /proc/1/root")
def _():
    write("/proc/1/root" + HOME + "/planted")


@attempt("write-fence", "write by climbing out of the workspace")
def _():
    write("../" * 20 + HOME.lstrip("/") + "/planted")


@attempt("write-fence", "write below a folder descriptor")
def _():
    folder = os.open(HOME, os.O_PATH)
    os.close(os.open("planted", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder))


@attempt("write-fence", "rename out of the workspace")
def _():
    write("mine")
    os.rename("mine", HOME + "/planted")


@attempt("write-fence", "exchange with a file outside")
def _():
    write("mine2")
    if libc.renameat2(-100, b"mine2", -100, (HOME + "/.profile").encode(), 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@attempt("write-fence", "core_pattern")
def _():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


@attempt("write-fence", "sysrq-trigger")
def _():
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))


@attempt("write-fence", "uevent helper or other sysfs")
def _():
    for path in ["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled"]:
        if os.path.exists(path):
            os.close(os.open(path, os.O_WRONLY))
            return path
    raise OSError(2, "none there")


@attempt("write-fence", "make a control group")
def _():
    for base in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"]:
        try:
            os.mkdir(base + "/planted")
            return base
        except OSError as error:
            last = error
    raise last


@attempt("memory-cap", "leave the control group")
def _():
    for base in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"]:
        try:
            with open(base + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))
            return base
        except OSError as error:
            last = error
    raise last


@attempt("metadata-fence", "chmod outside")
def _():
    os.chmod(HOME + "/.profile", 0o777)


@attempt("metadata-fence", "utime outside")
def _():
    os.utime(HOME + "/.profile", (1, 1))


@attempt("metadata-fence", "setxattr outside")
def _():
    os.setxattr(HOME + "/.profile", "user.planted", b"1")


# --- devices
@attempt("syscalls", "make a block device")
def _():
    os.mknod("disk", 0o60600, os.makedev(254, 0))


for device in ["/dev/mem", "/dev/kmsg", "/dev/port", "/dev/fuse", "/dev/kvm", "/dev/loop-control", "/dev/net/tun"]:
    attempt("write-fence", "open " + device)(lambda device=device: os.close(os.open(device, os.O_RDWR)))


@attempt("credentials", "read the raw disk")
def _():
    last = OSError(2, "no block device")
    for name in sorted(os.listdir("/sys/class/block")):
        try:
            fd = os.open("/dev/" + name, os.O_RDONLY)
            return name + " " + str(len(os.read(fd, 512)))
        except OSError as error:
            last = error
    raise last


# --- credentials
for secret in [
    ".ssh/id_rsa", ".ssh/config", ".aws/credentials", ".netrc", ".config/gh/hosts.yml", ".gnupg/secring.gpg",
    ".docker/config.json", ".kube/config", ".git-credentials", ".npmrc", ".mozilla/cookies.sqlite", ".bash_history",
    ".config/gcloud/credentials.db", ".cargo/credentials.toml", ".claude.json",
]:
    attempt("credentials", "read ~/" + secret)(lambda secret=secret: read(HOME + "/" + secret))
attempt("credentials", "read /etc/shadow")(lambda: read("/etc/shadow"))


@attempt("credentials", "read through a symlink in the workspace")
def _():
    os.symlink(HOME + "/.ssh/id_rsa", "to-key")
    return read("to-key")


@attempt("credentials", "read through /proc/self/root")
def _():
    return read("/proc/self/root" + HOME + "/.ssh/id_rsa")


@attempt("credentials", "read through /proc/1/root")
def _():
    return read("/proc/1/root" + HOME + "/.ssh/id_rsa")


@attempt("credentials", "read through a hard link")
def _():
    os.link(HOME + "/.ssh/id_rsa", "key")
    return read("key")


@attempt("credentials", "move ~/.ssh into the workspace")
def _():
    os.rename(HOME + "/.ssh", "ssh")
    return read("ssh/id_rsa")


@attempt("credentials", "copy with another program")
def _():
    subprocess.run(["cp", "-r", HOME + "/.ssh", "ssh-copy"], check=True, capture_output=True)
    return read("ssh-copy/id_rsa")


@attempt("credentials", "secret variables")
def _():
    found = [name for name in os.environ if name in ("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK")]
    return found or False


@attempt("credentials", "file handle of a hidden file")
def _():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + b"\0" * 128)
    mount = ctypes.c_int()
    if libc.name_to_handle_at(-100, (HOME + "/.ssh").encode(), handle, ctypes.byref(mount), 0) != 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    here = os.open(".", os.O_RDONLY)
    return call(304, here, handle, os.O_RDONLY)


# --- git
@attempt("git-frozen", "write .git/hooks/pre-commit")
def _():
    write(".git/hooks/pre-commit")


@attempt("git-frozen", "append to .git/config")
def _():
    write(".git/config")


@attempt("git-frozen", "git config core.hooksPath")
def _():
    subprocess.run(["git", "config", "core.hooksPath", "evil"], check=True, capture_output=True)


@attempt("git-frozen", "rename over .git/config")
def _():
    write(".git/config2")
    os.rename(".git/config2", ".git/config")


@attempt("git-frozen", "rename .git/hooks away")
def _():
    os.rename(".git/hooks", ".git/hooks2")
    os.mkdir(".git/hooks")


@attempt("git-frozen", "rename .git away")
def _():
    os.rename(".git", "git2")
    os.rename("git2", ".git")


@attempt("git-frozen", "plant .git/commondir")
def _():
    with open(".git/commondir", "w") as file:
        file.write("../evil\n")


@attempt("git-frozen", "replace .git/commondir")
def _():
    write(".git/c2")
    os.rename(".git/c2", ".git/commondir")


@attempt("git-frozen", "remove .git/commondir")
def _():
    os.unlink(".git/commondir")


@attempt("git-frozen", "hook by hard link")
def _():
    write("evil-hook")
    os.link("evil-hook", ".git/hooks/post-commit")


# --- processes
attempt("processes-hidden", "see a process of the host")(lambda: os.path.exists(f"/proc/{VICTIM}"))
attempt("processes-hidden", "read its command line")(lambda: read(f"/proc/{VICTIM}/cmdline"))
attempt("processes-hidden", "read the server's command line")(lambda: read(f"/proc/{SERVER}/cmdline"))
attempt("processes-safe", "signal a process of the host")(lambda: os.kill(VICTIM, 0))
attempt("processes-safe", "kill a process of the host")(lambda: os.kill(VICTIM, 9))
attempt("processes-safe", "signal the server")(lambda: os.kill(SERVER, 0))
attempt("processes-safe", "read its environment")(lambda: read(f"/proc/{VICTIM}/environ"))
attempt("processes-safe", "read the server's environment")(lambda: read(f"/proc/{SERVER}/environ"))
attempt("processes-safe", "open its memory")(lambda: os.close(os.open(f"/proc/{VICTIM}/mem", os.O_RDWR)))
attempt("processes-safe", "open its files")(lambda: os.readlink(f"/proc/{VICTIM}/fd/0"))


@attempt("processes-safe", "trace a process of the host")
def _():
    if libc.ptrace(16, VICTIM, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


@attempt("processes-safe", "read its memory")
def _():
    buffer = ctypes.create_string_buffer(16)
    vec = struct.pack("QQ", ctypes.addressof(buffer), 16)
    return call(310, VICTIM, vec, 1, struct.pack("QQ", 0x400000, 16), 1, 0)


@attempt("processes-safe", "take a descriptor from it")
def _():
    fd = call(434, VICTIM, 0)
    return call(438, fd, 0, 0)


@attempt("processes-safe", "trace the supervisor")
def _():
    if libc.ptrace(16, os.getppid(), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")


@attempt("processes-safe", "read the supervisor's environment")
def _():
    return read(f"/proc/{os.getppid()}/environ")


@attempt("no-orphans", "kill everybody in reach, supervisor included")
def _():
    os.kill(os.getppid(), 0)
    return False if os.getppid() == 1 else "may signal the supervisor"


# --- network and sockets
attempt("abstract-sockets", "host's abstract socket")(
    lambda: connect(socket.AF_UNIX, "\0" + os.path.basename(HOST_TMP)))
attempt("host-sockets", "host's socket in HOME")(lambda: connect(socket.AF_UNIX, HOME + "/host.sock"))
attempt("host-sockets", "host's socket in /tmp")(lambda: connect(socket.AF_UNIX, HOST_TMP + "/host.sock"))


@attempt("host-sockets", "host's socket through a symlink")
def _():
    os.symlink(HOME + "/host.sock", "to-socket")
    return connect(socket.AF_UNIX, "to-socket")


attempt("host-sockets", "docker's socket")(
    lambda: connect(socket.AF_UNIX, "/var/run/docker.sock") and "connected")
attempt("private-tmp", "see the host's /tmp")(lambda: os.path.exists(HOST_TMP + "/host.sock"))
attempt("private-tmp", "write to the host's /tmp")(lambda: write(HOST_TMP + "/planted"))
if os.environ["NETWORK"] != "host":
    attempt("private-network", "host's loopback")(lambda: connect(socket.AF_INET, ("127.0.0.1", PORT)))
    attempt("private-network", "TCP out")(lambda: connect(socket.AF_INET, ("1.1.1.1", 443)))
    attempt("private-network", "UDP out")(lambda: connect(socket.AF_INET, ("1.1.1.1", 53), socket.SOCK_DGRAM))
    attempt("private-network", "IPv6 out")(lambda: connect(socket.AF_INET6, ("2606:4700:4700::1111", 443)))

# --- system calls
NEWUSER, NEWNS, NEWNET, NEWPID = 0x10000000, 0x00020000, 0x40000000, 0x20000000
for name, number, args in [
    ("io_uring_setup", 425, (1, ctypes.create_string_buffer(256))), ("keyctl", 250, (0, -3, 0)),
    ("add_key", 248, (b"user", b"x", b"y", 1, -3)), ("bpf", 321, (5, ctypes.create_string_buffer(128), 128)),
    ("userfaultfd", 323, (1,)), ("perf_event_open", 298, (ctypes.create_string_buffer(128), 0, -1, -1, 0)),
    ("unshare a user namespace", 272, (NEWUSER,)), ("unshare mounts", 272, (NEWNS,)), ("unshare the network", 272, (NEWNET,)),
    ("clone into a user namespace", 56, (NEWUSER | 17, 0, 0, 0, 0)), ("clone into a PID namespace", 56, (NEWPID | 17, 0, 0, 0, 0)),
    ("clone3", 435, (ctypes.create_string_buffer(88), 88)), ("mount", 165, (b"none", b"/mnt", b"tmpfs", 0, 0)),
    ("umount a cover", 166, ((HOME + "/.ssh").encode(), 2)), ("umount /tmp", 166, (b"/tmp", 2)),
    ("open_tree", 428, (-100, b"/", 1)), ("fsopen", 430, (b"tmpfs", 0)), ("chroot", 161, (b"/",)),
    ("pivot_root", 155, (b"/", b"/tmp")), ("setns", 308, (0, 0)), ("init_module", 175, (b"x", 1, b"")),
    ("kexec_load", 246, (0, 0, 0, 0)), ("reboot", 169, (0xfee1dead, 672274793, 0, 0)), ("swapon", 167, (b"/x", 0)),
    ("sethostname", 170, (b"x", 1)), ("settimeofday", 164, (struct.pack("qq", 1, 0), 0)), ("syslog", 103, (10, 0, 0)),
    ("iopl", 172, (3,)), ("acct", 163, (0,)), ("quotactl", 179, (0, 0, 0, 0)), ("fanotify_init", 300, (0, 0)),
]:
    def run(number=number, args=args):
        parent = os.getpid()
        result = call(number, *args)
        if os.getpid() != parent:
            os._exit(0)
        return str(result)
    attempt("syscalls", name)(run)
for name, family, kind, protocol in [
    ("packet socket", 17, 3, 0), ("crypto socket", 38, 5, 0), ("vsock", 40, 1, 0), ("raw IP socket", 2, 3, 1),
    ("netlink audit", 16, 3, 9), ("bluetooth", 31, 3, 0), ("X.25", 9, 5, 0),
]:
    attempt("syscalls", name)(lambda f=family, k=kind, p=protocol: socket.socket(f, k, p).close())


@attempt("syscalls", "type into a terminal (TIOCSTI)")
def _():
    import fcntl
    import pty
    master, slave = pty.openpty()
    fcntl.ioctl(slave, 0x5412, b"x")


@attempt("syscalls", "become privileged through a set-user-id program")
def _():
    status = open("/proc/self/status").read()
    return False if "NoNewPrivs:\t1" in status else status


@attempt("syscalls", "keep capabilities that matter")
def _():
    line = [l for l in open("/proc/self/status") if l.startswith("CapBnd")][0]
    held = int(line.split()[1], 16)
    # SYS_ADMIN, SYS_PTRACE, SYS_MODULE, SYS_RAWIO, NET_ADMIN, NET_RAW, SYS_BOOT, MKNOD, DAC_READ_SEARCH
    dangerous = sum(1 << n for n in (21, 19, 16, 17, 12, 13, 22, 27, 2))
    effective = int([l for l in open("/proc/self/status") if l.startswith("CapEff")][0].split()[1], 16)
    return hex(effective & dangerous) if effective & dangerous else False


@attempt("memory-cap", "escape the killer of memory hogs")
def _():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("-1000")


# --- what must work all the same
def works(name):
    return attempt("", name)


@works("write in the workspace")
def _():
    os.makedirs("folder/deep", exist_ok=True)
    return write("folder/deep/file")


works("write in /tmp")(lambda: os.remove(write(f"/tmp/mine-{SERVER}")) or "written")
works("write in /var/tmp")(lambda: os.remove(write(f"/var/tmp/mine-{SERVER}")) or "written")
works("write in ~/.cache/pip")(lambda: write(HOME + "/.cache/pip/mine"))
works("read /etc/passwd")(lambda: read("/etc/passwd"))
works("read a file of HOME")(lambda: read(HOME + "/notes.txt"))


@works("serve on 127.0.0.1")
def _():
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(1)
    return connect(socket.AF_INET, listener.getsockname())


@works("UNIX socket in the workspace")
def _():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("own.sock")
    listener.listen(1)
    return connect(socket.AF_UNIX, "own.sock")


@works("terminal")
def _():
    import pty
    pty.openpty()
    return "open"


@works("semaphores")
def _():
    import multiprocessing
    multiprocessing.Lock()
    return "made"


@works("trace an own child")
def _():
    child = subprocess.Popen(["sleep", "5"])
    result = libc.ptrace(16, child.pid, 0, 0)
    child.kill()
    if result != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    return "traced"


@works("signal an own child")
def _():
    child = subprocess.Popen(["sleep", "5"])
    child.terminate()
    return child.wait() == -15


@works("git commit")
def _():
    subprocess.run(["git", "add", "folder"], check=True, capture_output=True)
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"], check=True, capture_output=True)
    return "committed"


@works("/dev/null, /dev/urandom and /dev/tty exist")
def _():
    write("/dev/null")
    return len(open("/dev/urandom", "rb").read(8)) == 8 and os.path.exists("/dev/tty")


for guarantee, name, body in attempts:
    try:
        result = body()
        outcome, detail = ("denied", "nothing learnt") if result is False else ("done", result)
    except OSError as error:
        outcome, detail = "denied", error.strerror or error
    except subprocess.CalledProcessError as error:
        outcome, detail = "denied", (error.stderr or b"").decode(errors="replace").strip().replace("\n", " ")
    print(guarantee, name, outcome, str(detail).replace("\t", " ").replace("\n", " "), sep="\t", flush=True)
print("", "end", "done", len(attempts), sep="\t")
sys.exit(0)
