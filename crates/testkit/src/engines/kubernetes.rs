//! A Kubernetes of one node: a real API server, kubelet and container runtime, without scheduler or controllers.
//!
//! All of it lives in namespaces of its own (processes, mounts, network). So it takes no port and leaves no
//! mount, no interface and no process behind, and it ends with this process by the kernel's doing: the first
//! process of its PID namespace waits on a pipe from here.

use super::{BUSYBOX, IMAGE_PATH, USERLAND, keep, make_image_root, output, pack, until, write_script};
use crate::tools;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::LazyLock,
    time::Duration,
};

/// A cluster with two pods that do nothing.
pub struct Kubernetes {
    /// A `kubectl` that reaches this cluster when it is given [`Self::kubeconfig`].
    pub client: PathBuf,
    /// How to reach the cluster, and as whom.
    pub kubeconfig: PathBuf,
    /// A folder that the pod and this machine share under the same name.
    pub shared: PathBuf,
    /// A running pod.
    pub pod: &'static str,
    /// Another one, for programs that would take all of the machine: it gets one processor.
    pub narrow_pod: &'static str,
    state: PathBuf,
    /// The process whose namespaces everything lives in.
    init: u32,
}

/// The cluster of this test process. Another test process waits for its turn: one cluster is load enough.
///
/// # Panics
/// When its programs are missing or it does not start; tests must not pass without it.
pub fn kubernetes() -> &'static Kubernetes {
    static KUBERNETES: LazyLock<Kubernetes> = LazyLock::new(Kubernetes::start);
    &KUBERNETES
}

const POD: &str = "idle";
const NARROW_POD: &str = "narrow";
const IMAGE: &str = "test.local/busybox:1";
const NODE: &str = "127.0.0.1";
const TOKEN: &str = "a-token-of-the-tests";
/// Names the state folder and the control groups, so that those of a killed run are found.
const PREFIX: &str = "codegen-sandbox-k8s-";
const START: Duration = Duration::from_secs(90);
/// Long enough for another test process to finish with its cluster.
const TURN: Duration = Duration::from_secs(300);

/// What the kubelet would otherwise set for the whole machine; it only looks whether they are set.
const SETTINGS: [(&str, &str); 3] =
    [("vm/overcommit_memory", "1"), ("kernel/panic", "10"), ("kernel/panic_on_oops", "1")];

impl Kubernetes {
    fn start() -> Self {
        for program in ["etcd", "containerd", "runc", "openssl", BUSYBOX] {
            let there = tools::on_path(program).is_some() || Path::new(program).exists();
            assert!(there, "{program} is missing: run `cargo xtask setup`");
        }
        let kubectl = tools::path("kubectl");
        let state = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        let init = open_room(&state);
        let (client, kubeconfig) = (state.join("kubectl"), state.join("kubeconfig"));
        write_script(
            &client,
            &format!("exec nsenter --net=/proc/{init}/ns/net {} \"$@\"", kubectl.display()),
        );
        let cluster = Self {
            client,
            kubeconfig,
            shared: state.join("shared"),
            pod: POD,
            narrow_pod: NARROW_POD,
            state,
            init,
        };
        cluster.write_files();
        cluster.start_parts();
        cluster.start_pods();
        cluster
    }

    /// Runs the client; its output.
    ///
    /// # Panics
    /// When it fails.
    pub fn run(&self, args: &[&str]) -> String {
        self.try_run(args).unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"))
    }

    fn try_run(&self, args: &[&str]) -> Result<String, String> {
        output(Command::new(&self.client).arg("--kubeconfig").arg(&self.kubeconfig).args(args))
    }

    /// Command lines of the pod's processes.
    ///
    /// # Panics
    /// When the cluster does not answer.
    pub fn processes(&self) -> String {
        self.run(&["exec", self.pod, "--", "ps", "-o", "args"])
    }

    fn write_files(&self) {
        fs::create_dir_all(&self.shared).unwrap();
        self.write_json(
            "kubeconfig",
            &json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{"name": "test", "cluster": {
                    "server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": true}}],
                "users": [{"name": "admin", "user": {"token": TOKEN}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
            }),
        );
        fs::write(self.state.join("tokens.csv"), format!("{TOKEN},admin,admin,system:masters\n")).unwrap();
        let key = self.state.join("accounts.key");
        let mut openssl = Command::new("openssl");
        openssl.args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"]).arg(key);
        output(&mut openssl).unwrap();
        self.write_json("kubelet.json", &json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": NODE, "readOnlyPort": 0, "healthzPort": 0,
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": format!("unix://{}", self.file("containerd.sock")),
            "cgroupDriver": "cgroupfs", "cgroupRoot": format!("/{}", self.name()), "failCgroupV1": false,
            "failSwapOn": false, "enforceNodeAllocatable": [], "makeIPTablesUtilChains": false,
            "localStorageCapacityIsolation": false,
            "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "10Mi"},
            "volumePluginDir": self.file("plugins"),
        }));
        let containerd = format!(
            "version = 2\nroot = \"{0}/containerd\"\nstate = \"{0}/run\"\n\
             [grpc]\naddress = \"{0}/containerd.sock\"\n\
             [plugins.\"io.containerd.grpc.v1.cri\"]\nsandbox_image = \"{IMAGE}\"\n\
             restrict_oom_score_adj = true\n",
            self.state.display()
        );
        fs::write(self.state.join("containerd.toml"), containerd).unwrap();
        self.write_image();
    }

    /// An archive as `docker save` would write it: one layer.
    fn write_image(&self) {
        let (root, archive) = (self.state.join("root"), self.state.join("archive"));
        make_image_root(&root);
        fs::create_dir_all(&archive).unwrap();
        pack(&root, &archive.join("layer.tar"));
        let digest = output(Command::new("sha256sum").arg(archive.join("layer.tar"))).unwrap();
        let digest = digest.split_whitespace().next().unwrap();
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        // The pod's own container says what it runs; this is for the one that only holds the pod together.
        let config = json!({
            "architecture": architecture, "os": "linux",
            "config": {"Env": [IMAGE_PATH], "Entrypoint": ["sleep", "2147483647"]},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        self.write_json("archive/config.json", &config);
        let manifest = json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
        self.write_json("archive/manifest.json", &manifest);
        pack(&archive, &self.state.join("image.tar"));
    }

    fn start_parts(&self) {
        let folder = self.state.display();
        let etcd = "http://127.0.0.1:2379";
        self.begin(&["containerd", "-c", &self.file("containerd.toml")]);
        self.begin(&["etcd", "--data-dir", &self.file("etcd"), "--unsafe-no-fsync"]);
        let apiserver = tools::path("kube-apiserver").display().to_string();
        let flags = format!(
            "--etcd-servers={etcd} --bind-address=127.0.0.1 --secure-port=6443 --advertise-address=192.0.2.2 \
             --endpoint-reconciler-type=none --cert-dir={folder}/certificates \
             --service-cluster-ip-range=10.96.0.0/24 --authorization-mode=AlwaysAllow \
             --token-auth-file={folder}/tokens.csv --service-account-issuer=https://test.local \
             --service-account-key-file={folder}/accounts.key \
             --service-account-signing-key-file={folder}/accounts.key --api-audiences=api \
             --disable-admission-plugins=ServiceAccount"
        );
        self.begin(&[&[apiserver.as_str()], &flags.split_whitespace().collect::<Vec<_>>()[..]].concat());
        let import = ["ctr", "-a", &self.file("containerd.sock"), "-n", "k8s.io", "images", "import"];
        let imported = until(START, || output(self.inside(&import).arg(self.file("image.tar"))));
        self.check("containerd", imported);
        self.check("kube-apiserver", until(START, || self.try_run(&["get", "--raw=/readyz"])));
        let kubelet = tools::path("kubelet").display().to_string();
        let config = format!("--config={folder}/kubelet.json");
        let reach = format!("--kubeconfig={}", self.kubeconfig.display());
        let root = format!("--root-dir={folder}/kubelet");
        let certificates = format!("--cert-dir={folder}/kubelet-certificates");
        let name = format!("--hostname-override={NODE}");
        self.begin(&[&kubelet, &config, &reach, &root, &certificates, &name]);
    }

    /// There is no scheduler: a pod names its node. Its network is that of the room, so none is to be set up.
    fn start_pods(&self) {
        let host = |path: &str| json!({"path": path});
        let mut volumes = vec![json!({"name": "shared", "hostPath": host(&self.file("shared"))})];
        let mut mounts = vec![json!({"name": "shared", "mountPath": self.file("shared")})];
        for (index, path) in USERLAND.iter().enumerate() {
            let name = format!("userland-{index}");
            volumes.push(json!({"name": name, "hostPath": host(path)}));
            mounts.push(json!({"name": name, "mountPath": path, "readOnly": true}));
        }
        let pod = |name: &str, resources: Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {
                    "nodeName": NODE, "hostNetwork": true, "dnsPolicy": "Default",
                    "enableServiceLinks": false, "automountServiceAccountToken": false,
                    "volumes": volumes,
                    "containers": [{
                        "name": "main", "image": IMAGE, "imagePullPolicy": "Never",
                        "command": ["sh", "-c", "trap exit TERM; while :; do sleep 1000 & wait; done"],
                        "volumeMounts": mounts, "resources": resources,
                    }],
                },
            })
        };
        let pods = [pod(POD, json!({})), pod(NARROW_POD, json!({"limits": {"cpu": "1"}}))];
        self.write_json("pods.json", &json!({"apiVersion": "v1", "kind": "List", "items": pods}));
        let manifest = self.file("pods.json");
        self.check("kube-apiserver", until(START, || self.try_run(&["apply", "-f", &manifest])));
        let ready = ["wait", "--for=condition=Ready", "pod", POD, NARROW_POD, "--timeout=90s"];
        self.check("kubelet", self.try_run(&ready));
    }

    fn check(&self, part: &str, result: Result<String, String>) {
        if let Err(error) = result {
            let log = fs::read_to_string(self.state.join(format!("{part}.log"))).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(15).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            panic!("Kubernetes did not start: {error}\nlast words of {part}:\n{}", last.join("\n"));
        }
    }

    /// A command inside the room.
    fn inside(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.init.to_string(), "-m", "-p", "-n", "--"]).args(argv);
        command
    }

    /// Starts a part that lives as long as the room.
    fn begin(&self, argv: &[&str]) {
        let name = Path::new(argv[0]).file_name().unwrap().to_string_lossy().into_owned();
        let log = File::create(self.state.join(format!("{name}.log"))).unwrap();
        let mut command = self.inside(argv);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        // Nobody waits for it: its end is the room's.
        std::mem::forget(child);
    }

    fn name(&self) -> String {
        self.state.file_name().unwrap().to_string_lossy().into_owned()
    }

    fn file(&self, name: &str) -> String {
        self.state.join(name).display().to_string()
    }

    fn write_json(&self, name: &str, content: &Value) {
        fs::write(self.state.join(name), content.to_string()).unwrap();
    }
}

/// Opens the namespaces and returns their first process. The lock is held until everything is removed again.
fn open_room(state: &Path) -> u32 {
    let temporary = std::env::temp_dir();
    let (state, temporary) = (state.display(), temporary.display());
    let settings: String = SETTINGS
        .iter()
        .map(|(name, value)| {
            let file = name.replace('/', "-");
            format!("echo {value} >{state}/{file}; mount --bind {state}/{file} /proc/sys/{name} || exit\n")
        })
        .collect();
    let inner = format!(
        "mount --make-rshared / && {BUSYBOX} ip link set lo up || exit\n\
         mount -t tmpfs none /run && mount -t tmpfs none /var/log || exit\n\
         {settings}touch {state}/ready\n\
         cat >/dev/null"
    );
    let cgroups = format!("find /sys/fs/cgroup -depth -type d -path '*/{PREFIX}*' -exec rmdir {{}} ';'");
    let name = format!("{PREFIX}{}", std::process::id());
    let outer = format!(
        "exec 3>{temporary}/{PREFIX}lock; flock 3\n\
         rm -rf {temporary}/{PREFIX}[0-9]*; {cgroups}\n\
         mkdir -p {state} && exec 2>{state}/room.log\n\
         for tree in /sys/fs/cgroup /sys/fs/cgroup/*/; do\n\
           [ ! -e $tree/cgroup.procs ] || mkdir $tree/{name}\n\
         done\n\
         unshare --mount --pid --net --fork --kill-child --mount-proc sh -c '{inner}'\n\
         {cgroups}; rm -rf {state}"
    );
    let keeper = keep(&outer);
    let ready = Path::new(&state.to_string()).join("ready");
    let opened = until(TURN, || if ready.exists() { Ok(()) } else { Err(String::new()) });
    assert!(
        opened.is_ok(),
        "no room for Kubernetes: another run holds {temporary}/{PREFIX}lock, or see {state}/room.log"
    );
    let unshare = only_child(keeper);
    only_child(unshare)
}

fn only_child(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children
        .split_whitespace()
        .next()
        .and_then(|child| child.parse().ok())
        .unwrap_or_else(|| panic!("{pid} is gone"))
}
