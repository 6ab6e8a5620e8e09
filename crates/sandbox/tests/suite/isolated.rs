//! Mode `isolated`, in each tier that this host allows.

use sandbox::{
    isolated::{Isolated, Network, Tier},
    suite::{self, Subject},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub(crate) fn build(tier: Tier, workspace: &Path) -> Isolated {
    Isolated::builder("isolated").workspace(workspace).tier(tier).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_pass_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(Arc::new(build(Tier::Namespaces, scratch.path())), scratch.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_without_network_pass_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    let builder = Isolated::builder("isolated").workspace(scratch.path()).network(Network::None);
    suite::run(Subject::new(Arc::new(builder.tier(Tier::Namespaces).build().unwrap()), scratch.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn landlock_passes_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(Arc::new(build(Tier::Landlock, scratch.path())), scratch.path())).await;
}

/// A home with secrets, a workspace with a repository, sockets, and a process that nobody inside may touch.
pub(crate) struct Host {
    folder: tempfile::TempDir,
    tmp: tempfile::TempDir,
    victim: std::process::Child,
    listener: std::net::TcpListener,
    _sockets: Vec<std::os::unix::net::UnixListener>,
}

const SECRETS: [&str; 15] = [
    ".ssh/id_rsa",
    ".ssh/config",
    ".aws/credentials",
    ".netrc",
    ".config/gh/hosts.yml",
    ".gnupg/secring.gpg",
    ".docker/config.json",
    ".kube/config",
    ".git-credentials",
    ".npmrc",
    ".mozilla/cookies.sqlite",
    ".bash_history",
    ".config/gcloud/credentials.db",
    ".cargo/credentials.toml",
    ".claude.json",
];

/// Names a folder for those who cannot write to the checkout's.
pub(crate) const PLACE: &str = "CODEGEN_SANDBOX_TEST_PLACE";

/// A folder that is not in /tmp, which the sandbox replaces as a whole, wherever the checkout is.
pub(crate) fn outside_tmp() -> PathBuf {
    if let Some(place) = std::env::var_os(PLACE) {
        return place.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if !target.starts_with("/tmp") && !target.starts_with("/var/tmp") {
        return target.to_owned();
    }
    let home = std::env::var_os("HOME").unwrap();
    let folder = Path::new(&home).join(".cache/codegen-sandbox/tests");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

impl Host {
    pub(crate) fn new() -> Self {
        use std::os::{linux::net::SocketAddrExt as _, unix::net};
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let home = folder.path().join("home");
        for secret in SECRETS {
            let path = home.join(secret);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "//registry/:_authToken=very-secret\n").unwrap();
        }
        for file in ["notes.txt", ".profile", ".bashrc"] {
            std::fs::write(home.join(file), "text\n").unwrap();
        }
        for place in [".local/bin", ".cargo/bin", ".config/autostart", ".config/environment.d", "go/bin"] {
            std::fs::create_dir_all(home.join(place)).unwrap();
        }
        let workspace = folder.path().join("work");
        run("git", &["init", "-q", workspace.to_str().unwrap()]);
        std::fs::write(folder.path().join("escape.py"), include_str!("escape.py")).unwrap();
        let tmp = tempfile::tempdir().unwrap();
        let name = tmp.path().file_name().unwrap().as_encoded_bytes();
        let sockets = vec![
            net::UnixListener::bind(home.join("host.sock")).unwrap(),
            net::UnixListener::bind(tmp.path().join("host.sock")).unwrap(),
            net::UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(name).unwrap()).unwrap(),
        ];
        let victim =
            std::process::Command::new("sleep").arg("1000").env("PRIVATE", "very-secret").spawn().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Self { folder, tmp, victim, listener, _sockets: sockets }
    }

    pub(crate) fn home(&self) -> std::path::PathBuf {
        self.folder.path().join("home")
    }

    pub(crate) fn workspace(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn script(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn builder(&self) -> sandbox::isolated::Builder {
        let mut variables = sandbox::host_variables();
        variables.insert("HOME".into(), self.home().into());
        for secret in ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK"] {
            variables.insert(secret.into(), "very-secret".into());
        }
        Isolated::builder("isolated").workspace(self.workspace()).variables(variables)
    }

    pub(crate) fn facts(&self, network: Network) -> Vec<sandbox::EnvEntry> {
        let set = |key: &str, value: String| sandbox::EnvEntry::Set(key.to_owned(), value);
        vec![
            set("VICTIM", self.victim.id().to_string()),
            set("SERVER", std::process::id().to_string()),
            set("PORT", self.listener.local_addr().unwrap().port().to_string()),
            set("HOST_TMP", self.tmp.path().display().to_string()),
            set("NETWORK", network.name().to_owned()),
        ]
    }

    pub(crate) fn victim_lives(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.victim.id())).unwrap();
        !status.contains(") Z ")
    }

    /// Every file of the home, and of the repository what makes git run programs, with its content. Without the
    /// caches, which may change.
    pub(crate) fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        list(&self.home(), &mut state);
        let git = self.workspace().join(".git");
        for name in ["hooks", "config", "commondir"] {
            list(&git.join(name), &mut state);
        }
        let caches = [
            "/.cache",
            "/.cargo/registry",
            "/.cargo/git",
            "/.cargo/.package",
            "/go/pkg",
            "/.npm/",
            "/commondir",
        ];
        state.retain(|line| !caches.iter().any(|cache| line.contains(cache)));
        state.sort();
        state
    }
}

fn list(path: &Path, state: &mut Vec<String>) {
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            list(&entry.path(), state);
        }
    } else if let Ok(content) = std::fs::read(path) {
        state.push(format!("{} {}", path.display(), String::from_utf8_lossy(&content)));
    }
}

pub(crate) fn run(command: &str, args: &[&str]) {
    let output = std::process::Command::new(command).args(args).output().unwrap();
    assert!(output.status.success(), "{command} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_leave_no_orphan() {
    let place = tempfile::tempdir().unwrap();
    sandbox::suite::orphans::ends_by_the_caller(
        Arc::new(build(Tier::Namespaces, place.path())),
        place.path(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn landlock_leaves_no_orphan() {
    let place = tempfile::tempdir().unwrap();
    sandbox::suite::orphans::ends_by_the_caller(Arc::new(build(Tier::Landlock, place.path())), place.path())
        .await;
}

#[test]
fn the_documentation_has_every_guarantee_and_every_key() {
    use sandbox::isolated::{GUARANTEES, Holds, KEYS};
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/isolation.md")).unwrap();
    let cell = |holds| match holds {
        Holds::Yes => "yes".to_owned(),
        Holds::FromLandlock(version) => format!("Landlock {version}"),
        Holds::No(why) => format!("no: {why}"),
    };
    for g in GUARANTEES {
        let row = format!("| `{}` | {} | {} | {} |", g.name, g.text, cell(g.namespaces), cell(g.landlock));
        assert!(page.contains(&row), "docs/src/isolation.md lacks the row\n{row}");
    }
    let keys = page.split("\n## ").find(|section| section.starts_with("Keys")).unwrap();
    for key in KEYS {
        assert!(keys.contains(&format!("`{key}`")), "docs/src/isolation.md lacks the key {key}");
    }
}
