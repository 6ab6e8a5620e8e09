//! Go that is built elsewhere: gopls answers for one platform and one set of tags at a time. What other files say of a
//! symbol, it tells when it is asked there.

use super::{
    ask::Spot,
    strangers::{Left, of_server},
    trouble::Trouble,
    workspace_symbols::{files_matching, files_with},
};
use crate::Call;
use ::code::{Language, Reader};
use ::lsp::{Lines, Location, Position, Range};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};
use workspace::ContainedPath;

/// Files that are asked about, and places in them.
const FILES: usize = 16;
const PLACES: usize = 60;

/// Platforms that a file's name may be for.
const PLATFORMS: &str = "aix android darwin dragonfly freebsd illumos ios js linux netbsd openbsd plan9 solaris wasip1 \
    windows 386 amd64 arm arm64 loong64 mips mips64 mips64le mipsle ppc64 ppc64le riscv64 s390x wasm";

/// Files that are read to see whether they are built under conditions; of more, only those that say so are.
const READ: usize = 200;
const TAGGED: &str = r"^// ?(go:build|\+build) ";

/// Whether a Go file is by its name for one platform.
fn for_platform(file: &Path) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let stem = stem.strip_suffix("_test").unwrap_or(stem);
    stem.rsplit_once('_').is_some_and(|(_, last)| PLATFORMS.split(' ').any(|one| one == last))
}

/// Whether a Go file is built under conditions.
fn constrained(file: &Path, text: &str) -> bool {
    let mut head = text.lines().take_while(|line| !line.starts_with("package "));
    for_platform(file) || head.any(|line| line.starts_with("//go:build ") || line.starts_with("// +build "))
}

/// Uses of the symbol that was `found`, in files that are built under other conditions than where it was asked for; and
/// what is not known of such files.
pub(super) async fn elsewhere(
    call: &Call,
    spot: &Spot,
    found: &[Location],
) -> Result<(Vec<Location>, Left), Trouble> {
    let server = &spot.ready.server;
    let encoding = server.client.encoding();
    let Some(word) = spot.word() else { return Ok(Default::default()) };
    let known: HashSet<PathBuf> = found.iter().filter_map(|at| server.ours(&at.path)).collect();
    let key = server.key.clone();
    let look = move |call: &Call| {
        let files = files_with(call, &[&word]).into_iter().filter(|file| !known.contains(file));
        let mut reader = Reader::default();
        let mut all: Vec<(ContainedPath, Vec<Range>)> = Vec::new();
        let mut left = Left::default();
        let mut files = of_server(call, &key, files);
        if files.len() > READ {
            let tagged: HashSet<PathBuf> = files_matching(call, TAGGED.to_owned()).into_iter().collect();
            files.retain(|file| for_platform(file) || tagged.contains(file));
        }
        for file in files {
            let Ok(path) = call.workspace.resolve(&file) else { continue };
            let Ok(text) = super::told::source(&call.workspace, &path) else { continue };
            if !constrained(&file, &text) {
                continue;
            }
            let Some(parsed) = reader.parse(Language::Go, text.as_bytes()) else { continue };
            let lines = Lines::of(&text);
            let place = |byte: usize| lines.position(byte, encoding);
            let uses = parsed.uses(&word, PLACES + 1);
            if uses.is_empty() {
                continue;
            }
            if all.len() >= FILES || uses.len() > PLACES {
                left.files += 1;
                continue;
            }
            let range = |at: usize| Range { start: place(at), end: place(at + word.len()) };
            all.push((path, uses.into_iter().map(range).collect()));
        }
        Ok((all, left))
    };
    let (files, mut left) = call.blocking(look).await?;
    let shown: Vec<ContainedPath> = files.iter().map(|(file, _)| file.clone()).collect();
    if shown.is_empty() {
        return Ok((Vec::new(), left));
    }
    server.sync(call, &shown).await?;
    server.settle(call).await?;
    let starts: HashSet<(&Path, Position)> =
        found.iter().map(|at| (at.path.as_path(), at.range.start)).collect();
    let mut more = Vec::new();
    for (file, ranges) in files {
        for range in ranges {
            let leads = server.leads(call, file.relative(), range.start).await?;
            let at = Location { path: server.theirs(file.relative()), range };
            if leads.is_empty() {
                left.places.push(at);
            } else if leads.iter().any(|lead| starts.contains(&(lead.path.as_path(), lead.range.start))) {
                more.push(at);
            }
        }
    }
    Ok((more, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_lines_tell() {
        for (file, text, expected) in [
            ("a.go", "package a\n", false),
            ("a_windows.go", "package a\n", true),
            ("a_linux_arm64.go", "package a\n", true),
            ("a_windows_test.go", "package a\n", true),
            ("windows.go", "package a\n", false),
            ("a.go", "// Copyright\n\n//go:build tools\n\npackage a\n", true),
            ("a.go", "package a\n\n//go:build tools\n", false),
        ] {
            assert_eq!(constrained(Path::new(file), text), expected, "{file} {text}");
        }
    }
}
