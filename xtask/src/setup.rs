//! Installing the test tools that `testkit::tools` lists.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use testkit::tools::{self, BUNDLES, Bundle, Source};

use crate::steps::capture;

/// Cheap settings for tools that run for seconds and are built for minutes.
const CARGO_INSTALL_PROFILE: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
];

/// What was done for a bundle.
pub(crate) struct Done {
    pub(crate) installed: usize,
    pub(crate) present: usize,
}

/// `cargo xtask setup --list`.
pub(crate) fn list() {
    println!("in {}\n", tools::cache_folder().display());
    for bundle in BUNDLES {
        let state = if bundle.is_installed() { "there" } else { "missing" };
        println!("{:<14} {state:<8} {:<17} {}", bundle.name, short_pin(bundle), bundle.purpose);
        let programs: Vec<&str> = bundle.programs().collect();
        if programs.len() > 1 {
            println!("{:<14} {:<8} {}", "", "", programs.join(", "));
        }
    }
}

/// `cargo xtask setup [name...]`.
pub(crate) fn command(names: &[&str]) -> Result<ExitCode> {
    let mut wanted = Vec::new();
    for name in names {
        let known = || BUNDLES.iter().map(|bundle| bundle.name).collect::<Vec<_>>().join(", ");
        wanted.push(
            tools::bundle(name)
                .with_context(|| format!("no tool is called {name}: there are {}", known()))?,
        );
    }
    if wanted.is_empty() {
        wanted = BUNDLES.iter().collect();
    }
    let done = install(&wanted)?;
    println!("{} installed, {} there already", done.installed, done.present);
    Ok(ExitCode::SUCCESS)
}

/// Installs what is missing: what mostly waits for the network in one lane, what mostly computes in the other.
pub(crate) fn install(wanted: &[&'static Bundle]) -> Result<Done> {
    let missing: Vec<&Bundle> = wanted.iter().copied().filter(|bundle| !bundle.is_installed()).collect();
    let done = Done { installed: missing.len(), present: wanted.len() - missing.len() };
    if missing.is_empty() {
        return Ok(done);
    }
    let (computing, waiting): (Vec<&Bundle>, Vec<&Bundle>) = missing.into_iter().partition(|bundle| {
        matches!(bundle.source, Source::Cargo { .. } | Source::Go { .. } | Source::GoModule { .. })
    });
    println!();
    let problems: Vec<String> = thread::scope(|scope| {
        let lanes = [waiting, computing].map(|lane| scope.spawn(move || run_lane(&lane)));
        lanes
            .into_iter()
            .flat_map(|lane| lane.join().unwrap_or_else(|_| vec!["a lane panicked".into()]))
            .collect()
    });
    if problems.is_empty() { Ok(done) } else { bail!("{}", problems.join("\n\n")) }
}

fn run_lane(bundles: &[&Bundle]) -> Vec<String> {
    let mut problems = Vec::new();
    for bundle in bundles {
        let start = Instant::now();
        let result = install_one(bundle);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("  installed {:<14} {} in {seconds:.0} s", bundle.name, short_pin(bundle)),
            Err(problem) => {
                println!("  FAILED    {:<14} {}", bundle.name, short_pin(bundle));
                problems.push(format!("{}: {problem:#}", bundle.name));
            }
        }
    }
    problems
}

fn install_one(bundle: &Bundle) -> Result<()> {
    match &bundle.source {
        Source::System { packages } => return system(bundle, packages),
        Source::Rustup { components } => {
            need("rustup", "install Rust through rustup")?;
            return execute(Command::new("rustup").args(["component", "add"]).args(*components));
        }
        _ => {}
    }
    let (Some(folder), Some(stamp)) = (bundle.folder(), bundle.stamp()) else { return Ok(()) };
    let cache = tools::cache_folder();
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    // Two checkouts may set up at the same time. What cargo builds shares a folder, and so a lock.
    let is_cargo = matches!(bundle.source, Source::Cargo { .. });
    let lock = cache.join(format!("{}.lock", if is_cargo { "cargo" } else { bundle.name }));
    let lock = File::create(&lock).with_context(|| format!("creating {}", lock.display()))?;
    lock.lock().context("waiting for another set-up to end")?;
    if bundle.is_installed() {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing a broken {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    match &bundle.source {
        Source::Cargo { package, version, arguments } => cargo(&folder, package, version, arguments)?,
        Source::Go { package, version } => go(&folder, package, version)?,
        Source::GoModule { version, manifest, lock, packages, stamps } => {
            go_module(&folder, version, [manifest, lock], packages, stamps)?;
        }
        Source::Npm { manifest, lock, links } => npm(&folder, manifest, lock, links)?,
        Source::Uv { version } => uv(&folder, version)?,
        Source::Python { requirements } => python(&folder, requirements)?,
        Source::Rustup { .. } | Source::System { .. } => {}
    }
    for program in bundle.programs() {
        let file = folder.join("bin").join(program);
        if !file.exists() {
            bail!("the installation went through but did not bring {}", file.display());
        }
        if let Some(question) = probe(program) {
            execute(Command::new("timeout").arg("60").arg(&file).args(question))
                .context("it does not run here")?;
        }
    }
    fs::write(&stamp, "").with_context(|| format!("writing {}", stamp.display()))?;
    let mut cargo_bundles = BUNDLES.iter().filter(|other| matches!(other.source, Source::Cargo { .. }));
    if is_cargo && cargo_bundles.all(Bundle::is_installed) {
        // A gigabyte that nobody needs any more; if it stays, nothing is wrong.
        let _ = fs::remove_dir_all(build_folder());
    }
    Ok(())
}

/// Where cargo builds the tools: shared, since they have dependencies in common.
fn build_folder() -> PathBuf {
    tools::cache_folder().join("build")
}

/// How to ask a program whether it runs at all; some can only be asked by working with them.
fn probe(program: &str) -> Option<&'static [&'static str]> {
    match program {
        "conformance" | "mcp-inspector" | "mcp-server-filesystem" | "pyright-langserver" | "tsserver" => None,
        "gopls" => Some(&["version"]),
        "kubectl" => Some(&["help"]),
        // As cargo calls it.
        "cargo-llvm-cov" => Some(&["llvm-cov", "--version"]),
        _ => Some(&["--version"]),
    }
}

fn system(bundle: &Bundle, packages: &[&str]) -> Result<()> {
    let by_hand = format!("install it yourself: sudo apt-get install -y {}", packages.join(" "));
    let root = capture(Command::new("id").arg("-u"))?.text.trim() == "0";
    if !root || tools::on_path("apt-get").is_none() {
        let missing: Vec<&str> = bundle.programs().filter(|name| tools::on_path(name).is_none()).collect();
        bail!("{} not found; {by_hand}", missing.join(", "));
    }
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    let install = || {
        let mut command = apt();
        command.args(["install", "-y", "--no-install-recommends"]).args(packages);
        command
    };
    // Package lists may be older than what the mirror still has, or missing altogether.
    if capture(&mut install())?.success {
        return Ok(());
    }
    execute(apt().arg("update")).context(by_hand.clone())?;
    execute(&mut install()).context(by_hand)
}

fn cargo(folder: &Path, package: &str, version: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("cargo");
    // Not in the project's folder: its configuration is for the project.
    command.current_dir(folder).envs(CARGO_INSTALL_PROFILE.iter().copied());
    for inherited in ["RUSTFLAGS", "RUSTDOCFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(inherited);
    }
    command.args(["install", "--locked", "--quiet", "--no-track", "--root"]).arg(folder);
    command.arg("--target-dir").arg(build_folder()).arg(format!("{package}@{version}")).args(arguments);
    execute(&mut command)
}

fn go(folder: &Path, package: &str, version: &str) -> Result<()> {
    need("go", "install Go 1.26 or newer")?;
    let mut command = Command::new("go");
    command.current_dir(folder).env("GOBIN", folder.join("bin")).env("GOFLAGS", "-trimpath");
    execute(command.arg("install").arg(format!("{package}@{version}")))
}

/// Builds in a folder of its own that holds nothing but the manifest and its sums.
fn go_module(
    folder: &Path,
    version: &str,
    [manifest, lock]: [&str; 2],
    packages: &[&str],
    stamps: &[&str],
) -> Result<()> {
    need("go", "install Go 1.26 or newer")?;
    let source = folder.join("source");
    fs::create_dir_all(&source)?;
    fs::write(source.join("go.mod"), manifest)?;
    fs::write(source.join("go.sum"), lock)?;
    let mut linking = "-s -w".to_owned();
    let numbers: Vec<&str> = version.split('.').collect();
    for stamp in stamps {
        linking.push_str(&format!(" -X {stamp}.gitVersion=v{version}"));
        for (name, number) in ["gitMajor", "gitMinor"].iter().zip(&numbers) {
            linking.push_str(&format!(" -X {stamp}.{name}={number}"));
        }
    }
    let mut command = Command::new("go");
    command.current_dir(&source).env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod");
    command.args(["build", "-trimpath", "-ldflags", &linking, "-o"]).arg(folder.join("bin/")).args(packages);
    execute(&mut command)
}

fn npm(folder: &Path, manifest: &str, lock: &str, links: &[(&str, &str)]) -> Result<()> {
    need("npm", "install Node.js 20 with npm")?;
    fs::write(folder.join("package.json"), manifest)?;
    fs::write(folder.join("package-lock.json"), lock)?;
    let mut command = Command::new("npm");
    // The browser is the system's: what puppeteer would fetch comes from a host that not everybody can reach.
    command.env("PUPPETEER_SKIP_DOWNLOAD", "1");
    // `npm ci` would refuse a lock that lacks the packages of other platforms.
    command.current_dir(folder).args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    execute(command.arg(folder))?;
    let bin = folder.join("bin");
    fs::create_dir_all(&bin)?;
    for (name, file) in links {
        let target = Path::new("..").join("node_modules").join(file);
        std::os::unix::fs::symlink(&target, bin.join(name)).with_context(|| format!("linking {name}"))?;
    }
    Ok(())
}

fn uv(folder: &Path, version: &str) -> Result<()> {
    need("python3", "install Python 3.11 or newer")?;
    execute(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    execute(Command::new(folder.join("bin/pip")).args(["install", "--quiet"]).arg(format!("uv=={version}")))
}

fn python(folder: &Path, requirements: &str) -> Result<()> {
    let uv = tools::bundle("uv").context("the bundle `uv` is gone from crates/testkit/src/tools.rs")?;
    install_if_missing(uv)?;
    let uv = tools::path("uv");
    let list = folder.join("requirements.txt");
    // uv refuses a folder that holds something, unless told to clear it; so the list comes second.
    execute(Command::new(&uv).args(["venv", "--quiet", "--clear"]).arg(folder))?;
    fs::write(&list, requirements)?;
    let mut command = Command::new(&uv);
    command.env("VIRTUAL_ENV", folder).args(["pip", "install", "--quiet", "--no-deps", "-r"]);
    execute(command.arg(&list))
}

fn install_if_missing(bundle: &Bundle) -> Result<()> {
    if bundle.is_installed() { Ok(()) } else { install_one(bundle) }
}

fn need(program: &str, way: &str) -> Result<()> {
    match tools::on_path(program) {
        Some(_) => Ok(()),
        None => bail!("{program} is not on the PATH: {way}"),
    }
}

fn execute(command: &mut Command) -> Result<()> {
    let printed = capture(command)?;
    if printed.success { Ok(()) } else { bail!("{}", printed.text) }
}

fn short_pin(bundle: &Bundle) -> String {
    match bundle.source {
        Source::System { .. } | Source::Rustup { .. } => String::new(),
        _ => bundle.pin(),
    }
}
