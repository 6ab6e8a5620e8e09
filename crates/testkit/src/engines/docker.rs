//! Docker's engine, and podman, which needs none.

use super::{BUSYBOX, IMAGE_PATH, keep, make_image_root, output, pack, until, write_script};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    time::Duration,
};

/// Containers of our own, with one small image.
pub struct Docker {
    /// A client that knows these containers and no others.
    pub client: PathBuf,
    /// An image with a shell and the usual small programs.
    pub image: &'static str,
    state: PathBuf,
}

/// The engine of this test process.
///
/// # Panics
/// When Docker's packages are missing or the engine does not start; tests must not pass without it.
pub fn docker() -> &'static Docker {
    static DOCKER: LazyLock<Docker> = LazyLock::new(Docker::start);
    &DOCKER
}

/// podman with containers of this test process.
///
/// # Panics
/// When its package is missing or it cannot take the image; tests must not pass without it.
pub fn podman() -> &'static Docker {
    static PODMAN: LazyLock<Docker> = LazyLock::new(Docker::start_podman);
    &PODMAN
}

const PODMAN: &str = "/usr/bin/podman";

/// Without systemd; the limits because root may not raise them everywhere.
const PODMAN_SETTINGS: &str = r#"[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=8192:8192"]
"#;

const CLIENT: &str = "/usr/bin/docker";
const ENGINE: &str = "/usr/sbin/dockerd";
const IMAGE: &str = "busybox-test:1";

impl Docker {
    fn start() -> Self {
        for program in [CLIENT, ENGINE, BUSYBOX] {
            assert!(Path::new(program).exists(), "{program} is missing: run `cargo xtask setup`");
        }
        // Removed by the script that outlives this process.
        let state = tempfile::Builder::new().prefix("docker-").tempdir().unwrap().keep();
        let socket = format!("unix://{}", state.join("docker.sock").display());
        let client = state.join("docker");
        write_script(&client, &format!("exec env DOCKER_HOST={socket} {CLIENT} \"$@\""));
        keep(&format!(
            "{ENGINE} --data-root {0}/data --exec-root {0}/exec --pidfile {0}/pid -H {socket} \
             --iptables=false --ip6tables=false --bridge=none >{0}/log 2>&1 &\n\
             engine=$!\n\
             cat >/dev/null\n\
             kill $engine; wait $engine; rm -rf {0}",
            state.display()
        ));
        let docker = Self { client, image: IMAGE, state };
        if until(Duration::from_secs(30), || docker.try_run(&["info"])).is_err() {
            let log = fs::read_to_string(docker.state.join("log")).unwrap_or_default();
            panic!("dockerd did not start:\n{log}");
        }
        docker.import();
        docker
    }

    fn start_podman() -> Self {
        for program in [PODMAN, BUSYBOX] {
            assert!(Path::new(program).exists(), "{program} is missing: run `cargo xtask setup`");
        }
        let state = tempfile::Builder::new().prefix("podman-").tempdir().unwrap().keep();
        let (client, settings) = (state.join("podman"), state.join("containers.conf"));
        fs::write(&settings, PODMAN_SETTINGS).unwrap();
        let exec = format!(
            "exec env CONTAINERS_CONF={} {PODMAN} --root {1}/root --runroot {1}/run --tmpdir {1}/tmp \"$@\"",
            settings.display(),
            state.display()
        );
        write_script(&client, &exec);
        let podman = Self { client, image: IMAGE, state };
        let (client, state) = (podman.client.display(), podman.state.display());
        keep(&format!("cat >/dev/null\n{client} rm -fa -t 0\numount {state}/root/overlay\nrm -rf {state}"));
        podman.import();
        podman
    }

    fn import(&self) {
        let (root, archive) = (self.state.join("image"), self.state.join("image.tar"));
        make_image_root(&root);
        pack(&root, &archive);
        self.run(&["import", "-c", &format!("ENV {IMAGE_PATH}"), &archive.display().to_string(), IMAGE]);
    }

    /// Runs the client; its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, args: &[&str]) -> String {
        self.try_run(args).unwrap_or_else(|error| panic!("docker {args:?}: {error}"))
    }

    fn try_run(&self, args: &[&str]) -> Result<String, String> {
        output(Command::new(&self.client).args(args))
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
