//! What the scripts of package.json run, as far as their text tells.

use super::manifest::Manifest;

/// A test runner that can be made to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runner {
    Jest,
    Vitest,
    Mocha,
    NodeTest,
    Bun,
}

impl Runner {
    /// How plans and people call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Jest => "jest",
            Self::Vitest => "vitest",
            Self::Mocha => "mocha",
            Self::NodeTest => "node",
            Self::Bun => "bun",
        }
    }
}

/// A script taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    /// Its commands in order, with the scripts it calls taken apart too.
    pub parts: Vec<String>,
    /// The first that runs tests, and with what.
    pub tests: Option<(usize, Runner)>,
}

impl Chain {
    /// Takes a script apart.
    pub(super) fn of(manifest: &Manifest, script: &str) -> Self {
        let mut parts = Vec::new();
        expand(manifest, script, 0, &mut parts);
        let tests = parts.iter().enumerate().find_map(|(at, part)| runner(part).map(|runner| (at, runner)));
        Self { parts, tests }
    }

    /// Whether some part has this text.
    pub(super) fn mentions(&self, text: &str) -> bool {
        self.parts.iter().any(|part| part.contains(text))
    }
}

fn expand(manifest: &Manifest, script: &str, depth: usize, parts: &mut Vec<String>) {
    // Scripts may call each other in circles.
    if depth > 6 || parts.len() > 50 {
        return;
    }
    for part in split(script) {
        let called = called(manifest, &part);
        if called.is_empty() {
            parts.push(part);
        }
        for name in called {
            if let Some(text) = manifest.scripts.get(&name) {
                expand(manifest, text, depth + 1, parts);
            }
        }
    }
}

/// The commands of a shell line: cut at `&&`, `||`, `;`, `|` and `&` outside of quotes.
fn split(script: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut chars = script.chars();
    while let Some(c) = chars.next() {
        let last = parts.last_mut();
        match (c, quote, last) {
            ('\\', _, Some(last)) => {
                last.push(c);
                last.extend(chars.next());
            }
            ('"' | '\'', None, Some(last)) => {
                quote = Some(c);
                last.push(c);
            }
            (_, Some(open), Some(last)) if c == open => {
                quote = None;
                last.push(c);
            }
            (';' | '\n' | '|' | '&', None, _) => parts.push(String::new()),
            (_, _, Some(last)) => last.push(c),
            (_, _, None) => {}
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The scripts of the same manifest that a command calls.
fn called(manifest: &Manifest, part: &str) -> Vec<String> {
    let words: Vec<&str> = part.split_whitespace().collect();
    let words = &words[words.iter().position(|word| !word.contains('=')).unwrap_or(0)..];
    let known = |name: &str| manifest.scripts.contains_key(name);
    match words {
        ["npm" | "pnpm" | "yarn" | "bun", "run", rest @ ..] => rest
            .iter()
            .filter(|word| !word.starts_with('-'))
            .take(1)
            .filter(|n| known(n))
            .map(|n| (*n).to_owned())
            .collect(),
        ["npm" | "pnpm", "test" | "t", ..] if known("test") => vec!["test".to_owned()],
        // `bun test` is bun's own runner, `yarn x` and `pnpm x` run a script.
        ["yarn" | "pnpm", name, ..] if known(name) => vec![(*name).to_owned()],
        ["npm-run-all" | "npm-run-all2" | "run-s" | "run-p" | "concurrently", rest @ ..] => {
            rest.iter().filter(|word| known(word)).map(|word| (*word).to_owned()).collect()
        }
        _ => Vec::new(),
    }
}

/// The runner a command starts, itself or through a wrapper such as c8 or cross-env.
fn runner(part: &str) -> Option<Runner> {
    let words: Vec<&str> = part.split_whitespace().map(|word| word.trim_matches(['"', '\''])).collect();
    let base = |word: &str| {
        word.rsplit('/').next().unwrap_or(word).trim_end_matches(".js").trim_end_matches(".mjs").to_owned()
    };
    for (at, word) in words.iter().enumerate() {
        match base(word).as_str() {
            "jest" | "jest-cli" => return Some(Runner::Jest),
            "react-scripts" if words.get(at + 1) == Some(&"test") => return Some(Runner::Jest),
            "vitest" => return Some(Runner::Vitest),
            "mocha" | "_mocha" => return Some(Runner::Mocha),
            "bun" if words.get(at + 1) == Some(&"test") => return Some(Runner::Bun),
            "node" | "tsx" if words[at..].contains(&"--test") => return Some(Runner::NodeTest),
            // What follows belongs to a command that is none of these.
            "eslint" | "tsc" | "prettier" | "biome" | "oxlint" | "stylelint" => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(scripts: &[(&str, &str)]) -> Chain {
        let mut manifest = Manifest::default();
        for (name, text) in scripts {
            manifest.scripts.insert((*name).to_owned(), (*text).to_owned());
        }
        Chain::of(&manifest, scripts[0].1)
    }

    #[test]
    fn runners_are_found_behind_wrappers_and_scripts() {
        for (script, expected) in [
            ("jest", Some((0, Runner::Jest))),
            ("NODE_OPTIONS=--experimental-vm-modules jest --ci", Some((0, Runner::Jest))),
            ("node --experimental-vm-modules node_modules/jest/bin/jest.js", Some((0, Runner::Jest))),
            ("cross-env NODE_ENV=test c8 --100 mocha 'test/**/*.js'", Some((0, Runner::Mocha))),
            ("eslint . && c8 mocha && tsd", Some((1, Runner::Mocha))),
            ("eslint test/jest; vitest run", Some((1, Runner::Vitest))),
            ("node --import tsx --test 'src/**/*.test.ts'", Some((0, Runner::NodeTest))),
            ("bun test", Some((0, Runner::Bun))),
            ("react-scripts test", Some((0, Runner::Jest))),
            ("tape test/*.js", None),
            ("make check", None),
        ] {
            assert_eq!(chain(&[("test", script)]).tests, expected, "{script}");
        }
    }

    #[test]
    fn scripts_that_call_scripts_are_taken_apart() {
        let found = chain(&[
            ("test", "npm run lint && npm run unit -- --ci; echo 'a && b'"),
            ("lint", "eslint ."),
            ("unit", "mocha"),
        ]);
        assert_eq!(found.parts, ["eslint .", "mocha", "echo 'a && b'"]);
        assert_eq!(found.tests, Some((1, Runner::Mocha)));
        assert_eq!(chain(&[("test", "npm test"), ("b", "x")]).tests, None);
        assert!(chain(&[("test", "npm run a"), ("a", "npm run test")]).parts.len() < 60);
    }
}
