//! Real container engines for tests, started once a test process and gone with it.

#![expect(clippy::unwrap_used, reason = "a test that cannot have its engine has failed")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    thread::sleep,
    time::Duration,
};

/// A Docker engine of our own, with one small image.
pub struct Docker {
    /// A client that speaks to this engine and no other.
    pub client: PathBuf,
    /// An image with a shell and the usual small programs.
    pub image: &'static str,
    _state: tempfile::TempDir,
}

/// The engine of this test process.
///
/// # Panics
/// When Docker's packages are missing or the engine does not start; tests must not pass without it.
pub fn docker() -> &'static Docker {
    static DOCKER: LazyLock<Docker> = LazyLock::new(Docker::start);
    &DOCKER
}

const CLIENT: &str = "/usr/bin/docker";
const ENGINE: &str = "/usr/sbin/dockerd";
const BUSYBOX: &str = "/bin/busybox";
const IMAGE: &str = "busybox-test:1";

impl Docker {
    fn start() -> Self {
        for program in [CLIENT, ENGINE, BUSYBOX] {
            assert!(Path::new(program).exists(), "{program} is missing: run `cargo xtask setup`");
        }
        let state = tempfile::Builder::new().prefix("docker-").tempdir().unwrap();
        let socket = format!("unix://{}", state.path().join("docker.sock").display());
        let client = state.path().join("docker");
        write_script(&client, &format!("exec env DOCKER_HOST={socket} {CLIENT} \"$@\""));
        start_engine(state.path(), &socket);
        let docker = Self { client, image: IMAGE, _state: state };
        for _ in 0..600 {
            if docker.try_run(&["info"]).is_ok() {
                docker.import_image();
                return docker;
            }
            sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(docker._state.path().join("log")).unwrap_or_default();
        panic!("dockerd did not start:\n{log}");
    }

    /// Runs the client; its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, args: &[&str]) -> String {
        self.try_run(args).unwrap_or_else(|error| panic!("docker {args:?}: {error}"))
    }

    fn try_run(&self, args: &[&str]) -> Result<String, String> {
        let output = Command::new(&self.client).args(args).stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// A running container that does nothing; gone when dropped.
    ///
    /// # Panics
    /// When it does not start.
    pub fn container(&self) -> Container<'_> {
        self.container_with(&[])
    }

    /// The same with further arguments for `docker run`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn container_with(&self, more: &[&str]) -> Container<'_> {
        let forever = "trap exit TERM; while :; do sleep 1000 & wait; done";
        let args = [&["run", "-d", "--network", "none"], more, &[self.image, "sh", "-c", forever]].concat();
        Container { docker: self, id: self.run(&args) }
    }

    /// The engine has no registry to pull from: its image is made of this machine's busybox.
    fn import_image(&self) {
        let root = self._state.path().join("image");
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
        copy_with_libraries("flock", &root);
        fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
        let archive = self._state.path().join("image.tar");
        let packed =
            Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status().unwrap();
        assert!(packed.success());
        self.run(&["import", "-c", "ENV PATH=/bin", &archive.display().to_string(), IMAGE]);
    }
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

/// The engine lives as long as the pipe from this process: closed on exit, however it comes about.
fn start_engine(state: &Path, socket: &str) {
    let script = format!(
        "{ENGINE} --data-root {0}/data --exec-root {0}/exec --pidfile {0}/pid -H {socket} \
         --iptables=false --ip6tables=false --bridge=none >{0}/log 2>&1 &\n\
         engine=$!\n\
         cat >/dev/null\n\
         kill $engine; wait $engine; rm -rf {0}",
        state.display()
    );
    let child = Command::new("setsid")
        .args(["sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Kept open until this process ends.
    std::mem::forget(child);
}

fn write_script(path: &Path, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A running container; removed when dropped.
pub struct Container<'a> {
    docker: &'a Docker,
    /// Its id.
    pub id: String,
}

impl Container<'_> {
    /// Command lines of its processes.
    ///
    /// # Panics
    /// When the engine does not answer.
    pub fn processes(&self) -> String {
        self.docker.run(&["top", &self.id, "-o", "pid,args"])
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        let _ = self.docker.try_run(&["rm", "-f", &self.id]);
    }
}
