//! seccomp: system calls that no build or test needs and that widen what a command can attack.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Compare,
    SeccompCondition as Condition, SeccompFilter, SeccompRule as Rule, sock_filter,
};
use std::{collections::BTreeMap, io};

const REFUSED: &[libc::c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_perf_event_open,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_open_by_handle_at,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_fanotify_init,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

const NEW_NAMESPACE: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Typing into somebody's terminal.
const TERMINAL_INJECTION: [u64; 2] = [0x5412, 0x541c];

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("seccomp: {error}"))
}

fn rule(conditions: &[(u8, Width, Compare, u64)]) -> io::Result<Rule> {
    let conditions = conditions
        .iter()
        .map(|(argument, width, compare, value)| {
            Condition::new(*argument, width.clone(), compare.clone(), *value).map_err(failed)
        })
        .collect::<io::Result<_>>()?;
    Rule::new(conditions).map_err(failed)
}

/// Sockets other than UNIX, IPv4, IPv6 and NETLINK_ROUTE (which lists network interfaces).
fn foreign_sockets() -> io::Result<Vec<Rule>> {
    let families = (3..=15).filter(|f| *f != 10);
    let mut rules =
        families.map(|f| rule(&[(0, Width::Dword, Compare::Eq, f)])).collect::<io::Result<Vec<_>>>()?;
    rules.push(rule(&[(0, Width::Dword, Compare::Ge, 17)])?);
    rules.push(rule(&[(0, Width::Dword, Compare::Eq, 16), (2, Width::Dword, Compare::Ne, 0)])?);
    Ok(rules)
}

/// The program to load.
pub(crate) fn build() -> io::Result<BpfProgram> {
    let mut refused: BTreeMap<i64, Vec<Rule>> = REFUSED.iter().map(|nr| (*nr, Vec::new())).collect();
    let namespaces = NEW_NAMESPACE.map(|bit| {
        let bit = u64::from(bit.unsigned_abs());
        rule(&[(0, Width::Qword, Compare::MaskedEq(bit), bit)])
    });
    refused.insert(libc::SYS_clone, namespaces.into_iter().collect::<io::Result<_>>()?);
    let injection = TERMINAL_INJECTION.map(|request| rule(&[(1, Width::Dword, Compare::Eq, request)]));
    refused.insert(libc::SYS_ioctl, injection.into_iter().collect::<io::Result<_>>()?);
    refused.insert(libc::SYS_socket, foreign_sockets()?);
    let refusal = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().map_err(failed)?;
    let filter = SeccompFilter::new(refused, SeccompAction::Allow, refusal, arch).map_err(failed)?;
    let mut program: BpfProgram = filter.try_into().map_err(failed)?;
    program.splice(0..0, prologue());
    Ok(program)
}

/// What the filter's own language cannot say: numbers of the x32 ABI would pass every rule, and clone3, whose
/// flags are behind a pointer, must look missing, so that libc falls back to clone.
fn prologue() -> [sock_filter; 4] {
    const LOAD_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
    let no_such_call = 0x0005_0000 | libc::ENOSYS.unsigned_abs();
    let clone3 = u32::try_from(libc::SYS_clone3).unwrap_or(u32::MAX);
    [
        LOAD_NUMBER,
        sock_filter { code: 0x35, jt: 1, jf: 0, k: 0x4000_0000 },
        sock_filter { code: 0x15, jt: 0, jf: 1, k: clone3 },
        sock_filter { code: 0x06, jt: 0, jf: 0, k: no_such_call },
    ]
}
