//! Secrets in files: a folder in which a file's name is the secret's name and its content the value.

use crate::{ConfigError, Secret};
use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// No secret is larger.
const MAX_SECRET: u64 = 64 * 1024;

/// A secret that was found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// The secret.
    pub secret: Secret,
    /// Why nobody should use it, and what to do about that.
    pub problem: Option<String>,
}

/// Reads all secrets of a folder. Files whose names are no secret names are left alone.
///
/// # Errors
/// The folder cannot be read.
pub fn read_secrets(dir: &Path) -> Result<Vec<SecretFile>, ConfigError> {
    let mut found = Vec::new();
    for (name, path) in files(dir)? {
        found.push(read(name, &path));
    }
    Ok(found)
}

/// Changes when a file of the folder changes, comes or goes. Says nothing else.
#[must_use]
pub fn secrets_stamp(dir: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, path) in files(dir).unwrap_or_default() {
        name.hash(&mut hasher);
        // Followed through links: mounted secrets are swapped by swapping a link.
        if let Ok(meta) = fs::metadata(&path) {
            (meta.ino(), meta.size(), meta.mode()).hash(&mut hasher);
            (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Whether a secret may be called that: letters, digits, `_` and `-`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn files(dir: &Path) -> Result<Vec<(String, PathBuf)>, ConfigError> {
    let bad = |error: std::io::Error| ConfigError::Secrets { dir: dir.to_owned(), why: error.to_string() };
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(bad)? {
        let path = entry.map_err(bad)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| is_secret_name(name));
        if let Some(name) = name
            && path.is_file()
        {
            files.push((name.to_owned(), path));
        }
    }
    files.sort();
    Ok(files)
}

fn read(name: String, path: &Path) -> SecretFile {
    let useless =
        |name, problem| SecretFile { secret: Secret { name, value: String::new() }, problem: Some(problem) };
    let meta = match fs::metadata(path) {
        Ok(meta) if meta.size() <= MAX_SECRET => meta,
        Ok(meta) => {
            return useless(name, format!("its file has {} bytes; at most {MAX_SECRET}", meta.size()));
        }
        Err(error) => return useless(name, format!("its file cannot be read: {error}")),
    };
    let value = match fs::read_to_string(path) {
        Ok(value) => value.trim_end_matches(['\r', '\n']).to_owned(),
        Err(error) => return useless(name, format!("its file cannot be read: {error}")),
    };
    let mode = meta.mode() & 0o777;
    let problem = if value.is_empty() {
        Some("its file is empty".to_owned())
    } else if mode & 0o007 != 0 {
        Some(format!("its file is open to every user of the machine (mode {mode:03o}); chmod 600 it"))
    } else {
        None
    };
    SecretFile { secret: Secret { name, value }, problem }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(dir: &Path, name: &str, value: &str, mode: u32) {
        fs::write(dir.join(name), value).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_are_read_and_their_modes_looked_at() {
        let dir = std::env::temp_dir().join(format!("config-secrets-{}", std::process::id()));
        fs::create_dir_all(dir.join("folder")).unwrap();
        put(&dir, "GOOD", "value\n", 0o600);
        put(&dir, "OPEN", "value", 0o644);
        put(&dir, "EMPTY", "\n", 0o600);
        put(&dir, "not a name", "value", 0o600);
        let found = read_secrets(&dir).unwrap();
        let names: Vec<_> =
            found.iter().map(|file| (file.secret.name.as_str(), file.problem.as_deref())).collect();
        assert_eq!(
            names,
            [
                ("EMPTY", Some("its file is empty")),
                ("GOOD", None),
                ("OPEN", Some("its file is open to every user of the machine (mode 644); chmod 600 it")),
            ]
        );
        assert_eq!(found[1].secret.value, "value");
        let stamp = secrets_stamp(&dir);
        assert_eq!(stamp, secrets_stamp(&dir));
        put(&dir, "GOOD", "other", 0o600);
        assert_ne!(stamp, secrets_stamp(&dir));
        fs::remove_dir_all(&dir).unwrap();
    }
}
