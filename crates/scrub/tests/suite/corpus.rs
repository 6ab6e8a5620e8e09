//! Ordinary source code is not mangled: real files pass unchanged, and change only where a secret was planted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scrub::Scrubber;

const PLANTED: &str = "planted-Zk3vP0q9-secret";

/// Crates this one is built with: their sources are on every machine that runs this test, in the version that
/// the lock file names.
const CRATES: &[&str] = &[
    "aho-corasick",
    "base64",
    "memchr",
    "proptest",
    "regex",
    "regex-automata",
    "serde_core",
    "serde_json",
    "tempfile",
];

fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources_below(&path, found);
        } else if path
            .extension()
            .is_some_and(|e| ["rs", "py", "ts", "go", "sh", "yaml"].iter().any(|x| e == *x))
        {
            found.push(path);
        }
    }
}

fn dependency_folders() -> Vec<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let manifests =
        packages.iter().filter(|package| package["name"].as_str().is_some_and(|n| CRATES.contains(&n)));
    manifests
        .filter_map(|package| Path::new(package["manifest_path"].as_str()?).parent().map(Path::to_path_buf))
        .collect()
}

fn corpus() -> Vec<(PathBuf, String)> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    let folders = dependency_folders();
    assert!(folders.len() >= CRATES.len(), "{folders:?}");
    for folder in
        folders.iter().map(PathBuf::as_path).chain([&*here.join("tests/corpus"), &*here.join("src")])
    {
        sources_below(folder, &mut paths);
    }
    assert!(paths.len() > 300, "only {} files", paths.len());
    paths.into_iter().filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?))).collect()
}

#[test]
fn real_source_files_change_only_where_a_secret_was_planted() {
    let scrubber = Scrubber::builder().secret("S", PLANTED).build();
    for (path, text) in corpus() {
        let scrubbed = scrubber.scrub(&text);
        if let Some((was, is)) = text.lines().zip(scrubbed.lines()).find(|(was, is)| was != is) {
            panic!("{}:\n  was {was}\n  is  {is}", path.display());
        }
        let planted: String = text
            .lines()
            .enumerate()
            .map(|(n, l)| if n % 7 == 3 { format!("{l} {PLANTED}\n") } else { format!("{l}\n") })
            .collect();
        assert_eq!(
            scrubber.scrub(&planted),
            planted.replace(PLANTED, "[REDACTED:secret:S]"),
            "{}",
            path.display()
        );
    }
}
