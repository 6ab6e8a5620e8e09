//! The same guarantees where this process is somebody else: an ordinary user, and root in a container under
//! Docker's default profile, where only the Landlock tier works. The tests run again, in a copy of this program.

use crate::isolated::PLACE;
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Output},
};
use testkit::engines::docker;

/// A copy that everybody may run, in a folder of its own.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/var/lib").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("suite");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    (folder, program)
}

fn passed(output: &Output, count: usize) {
    let text = String::from_utf8_lossy(&output.stdout);
    let expected = format!("test result: ok. {count} passed");
    assert!(text.contains(&expected), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_ordinary_user_is_fenced_in_as_well() {
    const NOBODY: u32 = 65534;
    let (folder, program) = copy();
    let place = folder.path().join("place");
    fs::create_dir(&place).unwrap();
    chown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
    let tests = [
        "escape::namespaces_hold",
        "escape::landlock_holds",
        "isolated::namespaces_leave_no_orphan",
        "isolated::landlock_leaves_no_orphan",
        // Without control groups, and as one who may change little outside.
        "caps::a_stream_of_ending_children_hides_nobody",
        "repositories::traps_in_a_repository_lead_the_server_nowhere",
        "repositories::linked_hooks_are_frozen_with_what_they_point_to",
    ];
    let user = NOBODY.to_string();
    let output = Command::new("setpriv")
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"])
        .arg(program)
        .arg("--exact")
        .args(tests)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &place)
        .env(PLACE, &place)
        .current_dir(&place)
        .output()
        .unwrap();
    passed(&output, tests.len());
}

#[test]
fn landlock_holds_in_a_container_under_the_default_profile() {
    let (folder, _) = copy();
    let mounts = [
        (folder.path(), "/suite"),
        (Path::new("/usr"), "/usr"),
        (Path::new("/usr/lib"), "/lib"),
        (Path::new("/etc/passwd"), "/etc/passwd"),
    ];
    let mut args: Vec<String> =
        ["run", "--rm", "--network", "none", "--tmpfs", "/var/place:exec", "--tmpfs", "/var/tmp"]
            .map(str::to_owned)
            .into();
    for (from, to) in mounts
        .into_iter()
        .chain(fs::exists("/usr/lib64").unwrap().then_some((Path::new("/usr/lib64"), "/lib64")))
    {
        args.extend(["-v".to_owned(), format!("{}:{to}:ro", from.display())]);
    }
    let tests = [
        "escape::landlock_holds",
        "isolated::landlock_leaves_no_orphan",
        "isolated::landlock_passes_the_suite",
    ];
    args.extend(["-e", "PATH=/usr/bin:/bin", "-e", "HOME=/var/place", "-e"].map(str::to_owned));
    args.push(format!("{PLACE}=/var/place"));
    args.extend([docker().image, "/suite/suite", "--exact"].map(str::to_owned));
    args.extend(tests.map(str::to_owned));
    let output = Command::new(&docker().client).args(args).output().unwrap();
    passed(&output, tests.len());
}
