//! Real container engines for tests, started on demand once a test process, and gone with it.

#![expect(clippy::unwrap_used, reason = "a test that cannot have its engine has failed")]

mod docker;
mod kubernetes;

pub use docker::{Container, Docker, docker, podman};
pub use kubernetes::{Kubernetes, kubernetes};

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const BUSYBOX: &str = "/bin/busybox";

/// Where images look for programs: their own first, then this machine's where a test has mounted them.
const IMAGE_PATH: &str = "PATH=/bin:/usr/bin";

/// Folders of this machine that bring its programs into a container, read-only and under their own names.
pub const USERLAND: [&str; 3] = ["/usr", "/lib", "/lib64"];

/// No engine has a registry to pull from: the image is made of this machine's busybox.
fn make_image_root(root: &Path) {
    assert!(Path::new(BUSYBOX).exists(), "{BUSYBOX} is missing: run `cargo xtask setup`");
    let bin = root.join("bin");
    for folder in ["bin", "etc", "root", "tmp"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    fs::copy(BUSYBOX, bin.join("busybox")).unwrap();
    let applets = Command::new(BUSYBOX).arg("--list").output().unwrap().stdout;
    for applet in
        String::from_utf8_lossy(&applets).lines().filter(|applet| !["busybox", "flock"].contains(applet))
    {
        symlink("busybox", bin.join(applet)).unwrap();
    }
    // Not among busybox's applets, and the behaviour suite tells by it who is still alive.
    copy_with_libraries("flock", root);
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
}

/// Copies a program of this machine, and what it is linked with, into a root folder.
fn copy_with_libraries(program: &str, root: &Path) {
    let path = crate::tools::on_path(program).unwrap_or_else(|| panic!("{program} is missing"));
    fs::copy(&path, root.join("bin").join(program)).unwrap();
    let linked = Command::new("ldd").arg(&path).output().unwrap().stdout;
    for library in String::from_utf8_lossy(&linked).split_whitespace().filter(|word| word.starts_with('/')) {
        let target = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(library, target).unwrap();
    }
}

/// Packs a folder's content.
fn pack(folder: &Path, archive: &Path) {
    let mut tar = Command::new("tar");
    tar.args(["--numeric-owner", "--owner=0", "--group=0", "-C"]).arg(folder).arg("-cf").arg(archive);
    assert!(tar.arg(".").status().unwrap().success(), "packing {}", folder.display());
}

/// A script that waits for this process's end, however it comes about, before its own last lines: its stdin
/// is a pipe that closes then. Its process id.
fn keep(script: &str) -> u32 {
    use std::os::unix::process::CommandExt as _;
    let child = Command::new("sh")
        .args(["-c", script])
        // An interrupt from the keyboard is for the tests; this one still has to clean up after them.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    // The pipe stays open until this process ends.
    std::mem::forget(child);
    pid
}

fn write_script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a program printed, or what it complained about.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Tries until it works; the last failure when it does not within `limit`.
fn until<T>(limit: Duration, mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let end = Instant::now() + limit;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => sleep(Duration::from_millis(50)),
            done => return done,
        }
    }
}
