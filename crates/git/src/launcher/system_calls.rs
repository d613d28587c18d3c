//! System calls that `git` and its hooks never need, refused by seccomp.
//!
//! The list names refused calls instead of allowed ones: those of `git` differ between versions and C libraries.

use std::collections::BTreeMap;
use std::io;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Refused calls.
const REFUSED: [c_long; 54] = [
    // Network. `socketpair` is harmless.
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kcmp,
    libc::SYS_setpriority,
    libc::SYS_sched_setscheduler,
    // Leaving the process group, with which the server ends all processes of a program.
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // Interfaces of the kernel that had many faults.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Administration of the machine.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_quotactl,
    libc::SYS_acct,
];

/// Flags of `clone` that create namespaces.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Bit in the numbers of the same calls of the x32 interface.
#[cfg(target_arch = "x86_64")]
const OTHER_INTERFACE: Option<c_long> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const OTHER_INTERFACE: Option<c_long> = None;

/// Refuses the calls in this process and its children from now on. Does nothing on an architecture that the filter does not
/// support.
///
/// # Errors
/// If the kernel rejects the filter.
pub(super) fn restrict() -> io::Result<()> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(());
    };
    for filter in filters(architecture).map_err(io::Error::other)? {
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// Returns the filters; each has one error for the calls that it refuses.
fn filters(architecture: TargetArch) -> Result<[BpfProgram; 2], seccompiler::Error> {
    let mut refused: Rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    let mut namespaces = Vec::new();
    for flag in NAMESPACES {
        let flag = u64::from(flag.unsigned_abs());
        let is_set = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(flag), flag)?;
        namespaces.push(SeccompRule::new(vec![is_set])?);
    }
    refused.insert(libc::SYS_clone, namespaces);
    // The flags of `clone3` are in memory, which a filter cannot read. The C library uses `clone` instead.
    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    Ok([
        filter(refused, libc::EPERM, architecture)?,
        filter(unknown, libc::ENOSYS, architecture)?,
    ])
}

/// System calls with the arguments at which they match; none for all arguments.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn filter(mut rules: Rules, error: i32, architecture: TargetArch) -> Result<BpfProgram, seccompiler::Error> {
    if let Some(bit) = OTHER_INTERFACE {
        let other: Rules = rules
            .iter()
            .map(|(call, rules)| (call | bit, rules.clone()))
            .collect();
        rules.extend(other);
    }
    let error = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, architecture)?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_compile_for_each_architecture() {
        for architecture in [TargetArch::x86_64, TargetArch::aarch64] {
            assert!(
                filters(architecture)
                    .unwrap()
                    .iter()
                    .all(|filter| !filter.is_empty())
            );
        }
    }
}
