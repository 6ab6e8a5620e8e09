//! Secrets in files: a folder in which a file's name is the secret's name and its content the value.

use crate::{ConfigError, Secret};
use rustix::{
    fs::StatVfsMountFlags,
    process::{getegid, geteuid, getgroups},
};
use std::{
    fs::{self, File, Metadata},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Read as _,
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
    /// What an operator should know about it although it can be used.
    pub remark: Option<String>,
}

/// Reads all secrets of a folder. Files whose names are no secret names are left alone.
///
/// # Errors
/// The folder cannot be read.
pub fn read_secrets(dir: &Path) -> Result<Vec<SecretFile>, ConfigError> {
    let us = Us::now();
    let folder = fs::metadata(dir).ok().and_then(|meta| us.doubt(&Facts::of_folder(dir, &meta)));
    let read = |(name, path): (String, PathBuf)| {
        let mut file = read(name, &path, dir, &us);
        file.problem = file.problem.or_else(|| folder.clone());
        file
    };
    Ok(files(dir)?.into_iter().map(read).collect())
}

/// Names of files in the folder that no secret can have: whoever put them there may think otherwise. Hidden ones are
/// what is put in place later.
#[must_use]
pub fn misnamed_secrets(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().filter(|entry| entry.path().is_file());
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| !is_secret_name(name) && !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Changes when a file of the folder changes, comes or goes. Says nothing else.
#[must_use]
pub fn secrets_stamp(dir: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Ok(meta) = fs::metadata(dir) {
        (meta.mode(), meta.uid(), meta.gid()).hash(&mut hasher);
    }
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

fn read(name: String, path: &Path, dir: &Path, us: &Us) -> SecretFile {
    let looked = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (value, problem, remark) = match looked {
        Err(error) => (String::new(), Some(format!("its file cannot be read: {error}")), None),
        Ok((meta, _)) if meta.size() > MAX_SECRET => {
            (String::new(), Some(format!("its file has {} bytes; at most {MAX_SECRET}", meta.size())), None)
        }
        Ok((meta, file)) => {
            let mut value = String::new();
            match file.take(MAX_SECRET).read_to_string(&mut value) {
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    (String::new(), Some("its file holds no UTF-8 text; store it in base64".to_owned()), None)
                }
                Err(error) => (String::new(), Some(format!("its file cannot be read: {error}")), None),
                Ok(_) => {
                    value.truncate(value.trim_end_matches(['\r', '\n']).len());
                    let empty = value.is_empty().then(|| "its file is empty".to_owned());
                    let facts = Facts::of_file(path, dir, &meta);
                    (value, empty.or_else(|| us.doubt(&facts)), us.remark(&facts))
                }
            }
        }
    };
    SecretFile { secret: Secret { name, value }, problem, remark }
}

/// Who this process is, as far as the modes of files go.
struct Us {
    uid: u32,
    groups: Vec<u32>,
}

/// Who may do what with a file or the folder around it.
struct Facts {
    what: &'static str,
    uid: u32,
    gid: u32,
    mode: u32,
    /// The bits that let others in: for a folder only those for writing, since its files have bits of their own.
    open: u32,
}

impl Facts {
    /// Engines mount secrets as root's files in memory, which whoever is in the container may read
    /// (Kubernetes 0644, Docker 0444): there it is writing alone that counts.
    fn of_file(path: &Path, dir: &Path, meta: &Metadata) -> Self {
        let around = fs::metadata(dir.join("..")).map(|around| around.dev()).ok();
        let mounted = meta.uid() == 0 && around.is_some_and(|around| around != meta.dev()) && in_memory(path);
        Self { open: if mounted { 0o022 } else { 0o077 }, ..Self::of("file", meta) }
    }

    /// Kubernetes mounts a folder that looks writable for everybody, read-only.
    fn of_folder(dir: &Path, meta: &Metadata) -> Self {
        let fixed = rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::RDONLY));
        Self { open: if fixed { 0 } else { 0o022 }, ..Self::of("folder", meta) }
    }

    fn of(what: &'static str, meta: &Metadata) -> Self {
        Self { what, uid: meta.uid(), gid: meta.gid(), mode: meta.mode() & 0o777, open: 0 }
    }
}

fn in_memory(path: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(path)
        .is_ok_and(|fs| u64::try_from(fs.f_type).is_ok_and(|kind| kind == TMPFS || kind == RAMFS))
}

impl Us {
    fn now() -> Self {
        let mut groups: Vec<u32> =
            getgroups().unwrap_or_default().iter().map(|group| group.as_raw()).collect();
        groups.push(getegid().as_raw());
        Self { uid: geteuid().as_raw(), groups }
    }

    /// Why others than root, this user and its groups could know or change a secret.
    fn doubt(&self, facts: &Facts) -> Option<String> {
        let Facts { what, uid, gid, mode, open } = *facts;
        let right = if what == "file" { "600" } else { "700" };
        if mode & open & 0o007 != 0 {
            let every = if what == "file" { "is open to" } else { "can be written by" };
            return Some(format!(
                "its {what} {every} every user of the machine (mode {mode:03o}); chmod {right} it"
            ));
        }
        if mode & open & 0o070 != 0 && gid != 0 && !self.groups.contains(&gid) {
            return Some(format!(
                "its {what} is open to group {gid}, which the server is not in (mode {mode:03o}); chmod {right} it"
            ));
        }
        (self.uid != 0 && uid != 0 && uid != self.uid)
            .then(|| format!("its {what} belongs to another user ({uid}), who can change it; chown it"))
    }

    /// Root is often given files of the user who started a container: that is not refused.
    fn remark(&self, facts: &Facts) -> Option<String> {
        (self.uid == 0 && facts.uid != 0)
            .then(|| format!("its file belongs to user {}, not to root", facts.uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn put(dir: &Path, name: &str, value: impl AsRef<[u8]>, mode: u32) {
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
        put(&dir, "BYTES", b"\xff\xfe\x00", 0o600);
        put(&dir, "not a name", "value", 0o600);
        let found = read_secrets(&dir).unwrap();
        let names: Vec<_> =
            found.iter().map(|file| (file.secret.name.as_str(), file.problem.as_deref())).collect();
        assert_eq!(
            names,
            [
                ("BYTES", Some("its file holds no UTF-8 text; store it in base64")),
                ("EMPTY", Some("its file is empty")),
                ("GOOD", None),
                ("OPEN", Some("its file is open to every user of the machine (mode 644); chmod 600 it")),
            ]
        );
        assert_eq!(found[2].secret.value, "value");
        put(&dir, ".written-aside", "value", 0o600);
        assert_eq!(misnamed_secrets(&dir), ["not a name"]);
        let stamp = secrets_stamp(&dir);
        assert_eq!(stamp, secrets_stamp(&dir));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert_ne!(stamp, secrets_stamp(&dir));
        let told = "its folder can be written by every user of the machine (mode 777); chmod 700 it";
        assert_eq!(read_secrets(&dir).unwrap()[2].problem.as_deref(), Some(told));
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        put(&dir, "GOOD", "other", 0o600);
        assert_ne!(stamp, secrets_stamp(&dir));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn foreign_users_and_groups_are_kept_out_and_mounted_secrets_let_in() {
        let us = Us { uid: 1000, groups: vec![1000, 2000] };
        let doubt = |uid, gid, mode, open| us.doubt(&Facts { what: "file", uid, gid, mode, open });
        for (uid, gid, mode) in
            [(1000, 1000, 0o600), (1000, 2000, 0o660), (0, 2000, 0o440), (1000, 3000, 0o600)]
        {
            assert_eq!(doubt(uid, gid, mode, 0o077), None, "{uid} {gid} {mode:o}");
        }
        assert!(doubt(1000, 3000, 0o640, 0o077).unwrap().contains("group 3000, which the server is not in"));
        assert!(doubt(1000, 3000, 0o620, 0o077).is_some());
        assert!(doubt(1001, 1000, 0o640, 0o077).unwrap().contains("another user (1001)"));
        assert!(doubt(0, 0, 0o444, 0o077).is_some(), "a file on the disk");
        // As Docker and Kubernetes mount them.
        assert_eq!((doubt(0, 0, 0o444, 0o022), doubt(0, 0, 0o644, 0o022)), (None, None));
        assert!(doubt(0, 0, 0o646, 0o022).is_some());
        let root = Us { uid: 0, groups: vec![0] };
        let file = Facts { what: "file", uid: 1000, gid: 1000, mode: 0o600, open: 0o077 };
        assert_eq!(root.doubt(&file), None);
        assert!(root.remark(&file).unwrap().contains("belongs to user 1000"));
    }
}
