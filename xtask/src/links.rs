//! Links between the project's own pages.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::steps::Verdict;

/// Every relative link in the pages at the root and in the book leads to a file.
pub(crate) fn verdict(root: &Path) -> Result<Verdict> {
    let mut pages = Vec::new();
    for (folder, deep) in [(root.to_owned(), false), (root.join("docs"), true)] {
        markdown(&folder, deep, &mut pages)?;
    }
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
        let folder = page.parent().unwrap_or(root);
        for target in targets(&text) {
            if !folder.join(&target).exists() {
                broken.push(format!(
                    "{}: {target} is not there",
                    page.strip_prefix(root).unwrap_or(page).display()
                ));
            }
        }
    }
    Ok(match broken.as_slice() {
        [] => Verdict::Passed(format!("{} pages", pages.len())),
        list => Verdict::Failed(list.join("\n")),
    })
}

fn markdown(folder: &Path, deep: bool, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() && deep {
            markdown(&path, deep, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

/// The files that a page links to: no addresses, no anchors, nothing in code.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        if code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains(':') {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_links_to_files_only() {
        let text = "[a](b.md) and [c](d/e.md#part), [f](https://g), [h](#i)\n```\n[j](k.md)\n```\n";
        assert_eq!(targets(text), ["b.md", "d/e.md"]);
    }
}
