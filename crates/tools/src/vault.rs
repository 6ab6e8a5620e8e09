//! The secrets of this process: who may have them, and what keeps them inside.

use crate::ToolError;
use config::{Secret, SecretFile, Settings, is_secret_name};
use scrub::{Builder, Scrubber};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// How long a look at the files holds.
const FRESH: Duration = Duration::from_secs(1);

/// Replaced values of one secret that are still kept inside: a process that had an older one has long ended.
const RETIRED_EACH: usize = 16;

/// The same of all secrets together.
const RETIRED: usize = 256;

/// All secrets, and the scrubber that knows their values. Files are looked at again when they may have changed.
pub(crate) struct Vault {
    /// What the configuration adds to the shapes that are known anyway.
    patterns: Mutex<Builder>,
    fixed: Vec<Secret>,
    withheld: Vec<Secret>,
    dir: Option<PathBuf>,
    held: RwLock<Held>,
    looked: Mutex<Looked>,
    /// What an operator should know of the start.
    remarks: Vec<String>,
}

struct Held {
    by_name: BTreeMap<String, Result<String, String>>,
    scrubber: Arc<Scrubber>,
}

struct Looked {
    at: Instant,
    /// `None` when the folder could not be read.
    stamp: Option<u64>,
    /// Why it could not, once that was said.
    failed: Option<String>,
    /// What an operator was told about them.
    said: Vec<String>,
    /// What the files hold, whether anybody may have it or not.
    files: Vec<SecretFile>,
    /// Values that were replaced: what printed them may still run.
    retired: Vec<Secret>,
}

impl Vault {
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Self> {
        let dir = settings.secrets_dir.clone();
        let stamp = dir.as_deref().map(config::secrets_stamp);
        let files = dir.as_deref().map(config::read_secrets).transpose()?.unwrap_or_default();
        let (fixed, withheld) = (settings.secrets.clone(), settings.withheld.clone());
        let patterns = compiled(&settings.patterns)?;
        let held = hold(patterns.clone(), &fixed, &withheld, &files, &[]);
        let said = remarks(dir.as_deref(), &files, &held.scrubber);
        let remarks = settings.misnamed.iter().chain(&said).cloned().collect();
        let at = Instant::now();
        let looked = Looked { at, stamp, failed: None, said, files, retired: Vec::new() };
        let (held, looked) = (RwLock::new(held), Mutex::new(looked));
        Ok(Self { patterns: Mutex::new(patterns), fixed, withheld, dir, held, looked, remarks })
    }

    /// What an operator should know of the secrets as they were at the start, when there was no log yet.
    pub(crate) fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Scrubs by these patterns from now on, besides the shapes that are known anyway.
    ///
    /// # Errors
    /// A pattern is not a regular expression; then nothing changes.
    pub(crate) fn replace_patterns(&self, patterns: &BTreeMap<String, String>) -> anyhow::Result<()> {
        let patterns = compiled(patterns)?;
        // Whoever reads the files again waits for this lock, and then finds the new patterns.
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        self.refresh(&mut looked)?;
        *self.patterns.lock().unwrap_or_else(PoisonError::into_inner) = patterns;
        self.renew(&looked);
        Ok(())
    }

    /// What takes secrets out of everything that leaves.
    pub(crate) fn scrubber(&self) -> Arc<Scrubber> {
        self.look(FRESH);
        Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner).scrubber)
    }

    /// The same for something that leaves now: a value that was replaced this moment is known, too.
    pub(crate) fn scrubber_now(&self) -> Arc<Scrubber> {
        self.look(Duration::ZERO);
        self.scrubber()
    }

    /// Names of the secrets that can be had.
    pub(crate) fn names(&self) -> Vec<String> {
        self.look(Duration::ZERO);
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        held.by_name.iter().filter(|(_, value)| value.is_ok()).map(|(name, _)| name.clone()).collect()
    }

    /// A secret's value, for whoever may have it.
    pub(crate) fn get(&self, name: &str) -> Result<String, ToolError> {
        if !is_secret_name(name) {
            return Err(ToolError::caller(format!(
                "secret names are made of letters, digits, `_` and `-`, got \"{name}\""
            )));
        }
        self.look(Duration::ZERO);
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        match held.by_name.get(name) {
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(problem)) => {
                Err(ToolError::caller(format!("secret \"{name}\" cannot be used: {problem}")))
            }
            None => {
                drop(held);
                let known = self.names();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(ToolError::caller(format!("unknown secret \"{name}\"; available: {known}")))
            }
        }
    }

    /// Reads the files again if they changed and the last look is older than `fresh`.
    fn look(&self, fresh: Duration) {
        // Only now that nothing is locked: writing a log line asks for the scrubber.
        match self.read_again(fresh) {
            Ok(None) => {}
            Ok(Some(remarks)) => {
                tracing::info!("the secrets' files changed and were read again");
                remarks.iter().for_each(|remark| tracing::warn!("{remark}"));
            }
            Err(error) => tracing::warn!("{error}; the secrets known so far stay"),
        }
    }

    /// What there is to say about the files, when they were read again.
    fn read_again(&self, fresh: Duration) -> Result<Option<Vec<String>>, config::ConfigError> {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if self.dir.is_none() || looked.at.elapsed() < fresh {
            return Ok(None);
        }
        looked.at = Instant::now();
        match self.refresh(&mut looked) {
            Ok(changed) => {
                looked.failed = None;
                if !changed {
                    return Ok(None);
                }
                self.renew(&looked);
                let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
                let now = remarks(self.dir.as_deref(), &looked.files, &held.scrubber);
                let before = std::mem::replace(&mut looked.said, now);
                Ok(Some(looked.said.iter().filter(|said| !before.contains(said)).cloned().collect()))
            }
            Err(error) => {
                let why = match &error {
                    config::ConfigError::Secrets { why, .. } => why.clone(),
                    other => other.to_string(),
                };
                // A look at every result must not be a line in the log for each of them.
                if looked.failed.as_ref() == Some(&why) {
                    return Ok(None);
                }
                (looked.stamp, looked.failed) = (None, Some(why.clone()));
                for file in looked.files.iter_mut().filter(|file| file.problem.is_some()) {
                    // What was wrong with it can no longer be seen, nor mended as it was said.
                    file.problem = Some(format!("its folder can no longer be read ({why}); put it back"));
                }
                self.renew(&looked);
                Err(error)
            }
        }
    }

    /// Reads the files again if they changed; what they no longer hold is remembered.
    fn refresh(&self, looked: &mut Looked) -> Result<bool, config::ConfigError> {
        let Some(dir) = &self.dir else { return Ok(false) };
        let stamp = Some(config::secrets_stamp(dir));
        if stamp == looked.stamp {
            return Ok(false);
        }
        let files = config::read_secrets(dir)?;
        looked.stamp = stamp;
        for old in std::mem::replace(&mut looked.files, files) {
            retire(&mut looked.retired, old.secret, &looked.files);
        }
        Ok(true)
    }

    /// Puts in force what is known by now.
    fn renew(&self, looked: &Looked) {
        let patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let renewed = hold(patterns, &self.fixed, &self.withheld, &looked.files, &looked.retired);
        *self.held.write().unwrap_or_else(PoisonError::into_inner) = renewed;
    }
}

/// Remembers a value that is no longer in force, the latest last. A value that is back in force, or that was
/// there once more, is remembered from now on.
fn retire(retired: &mut Vec<Secret>, old: Secret, files: &[SecretFile]) {
    if old.value.is_empty() || files.iter().any(|file| file.secret == old) {
        return;
    }
    retired.retain(|known| *known != old);
    let same: Vec<usize> = (0..retired.len()).filter(|at| retired[*at].name == old.name).collect();
    if let [oldest, ..] = same.as_slice()
        && same.len() >= RETIRED_EACH
    {
        retired.remove(*oldest);
    } else if retired.len() >= RETIRED {
        retired.remove(0);
    }
    retired.push(old);
}

fn compiled(patterns: &BTreeMap<String, String>) -> anyhow::Result<Builder> {
    let mut builder = Scrubber::builder();
    for (name, pattern) in patterns {
        builder = builder.pattern(name, pattern)?;
    }
    Ok(builder)
}

/// What an operator should know of secrets that nobody can use, or that are not kept inside.
fn remarks(dir: Option<&Path>, files: &[SecretFile], scrubber: &Scrubber) -> Vec<String> {
    let mut remarks = Vec::new();
    for file in files {
        let said = file.problem.iter().chain(&file.remark);
        remarks.extend(said.map(|said| format!("secret {}: {said}", file.secret.name)));
    }
    if let Some(dir) = dir {
        remarks.extend(config::misnamed_secrets(dir).iter().map(|name| {
            format!(
                "{}: \"{name}\" is no secret: names are made of letters, digits, `_` and `-`; nobody is given what is \
                 in it, and that is not scrubbed; rename it",
                dir.display()
            )
        }));
    }
    for name in scrubber.unprotected() {
        let remark = format!(
            "secret {name} is shown wherever it stands: it is too short (below {} characters) or too common to be \
             looked for; use a longer one",
            scrub::MIN_SECRET
        );
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
    remarks
}

/// Files first, so that what the environment says wins.
fn hold(
    patterns: Builder,
    fixed: &[Secret],
    withheld: &[Secret],
    files: &[SecretFile],
    retired: &[Secret],
) -> Held {
    let mut by_name = BTreeMap::new();
    for file in files {
        let value = file.problem.clone().map_or_else(|| Ok(file.secret.value.clone()), Err);
        by_name.insert(file.secret.name.clone(), value);
    }
    for secret in fixed {
        by_name.insert(secret.name.clone(), Ok(secret.value.clone()));
    }
    let mut scrubber = patterns;
    let files = files.iter().map(|file| &file.secret).filter(|secret| !secret.value.is_empty());
    for secret in fixed.iter().chain(withheld).chain(files).chain(retired) {
        for value in spellings(&secret.value) {
            scrubber = scrubber.secret(&secret.name, value);
        }
    }
    Held { by_name, scrubber: Arc::new(scrubber.build()) }
}

/// A value as programs print it. Many end at a NUL or leave it out, and no variable can hold one.
fn spellings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned()];
    if value.contains('\0') {
        all.push(value.replace('\0', ""));
        let parts = value.split('\0').filter(|part| part.chars().count() >= scrub::MIN_ANYWHERE);
        all.extend(parts.map(str::to_owned));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_gone_is_said_to_be_and_looked_at_when_it_is_back() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let (dir, away) = (place.path().join("secrets"), place.path().join("away"));
        std::fs::create_dir(&dir).unwrap();
        let allow = |mode| std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
        let key = dir.join("KEY");
        std::fs::write(&key, "a value to keep inside").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        allow(0o777);
        let settings = Settings { secrets_dir: Some(dir.clone()), ..Settings::default() };
        let vault = Vault::new(&settings).unwrap();
        let why = || vault.get("KEY").unwrap_err().to_string();
        assert!(why().contains("mode 777"), "{}", why());
        std::fs::rename(&dir, &away).unwrap();
        assert!(why().contains("can no longer be read") && !why().contains("777"), "{}", why());
        assert_eq!(vault.scrubber_now().scrub("a value to keep inside"), "[REDACTED:secret:KEY]");
        std::fs::rename(&away, &dir).unwrap();
        assert!(why().contains("mode 777"), "{}", why());
        allow(0o700);
        assert_eq!(vault.get("KEY").unwrap(), "a value to keep inside");
    }

    #[test]
    fn a_value_with_a_nul_stays_inside_however_it_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { secrets_dir: Some(dir.path().to_owned()), ..Settings::default() };
        std::fs::write(dir.path().join("KEY"), "the first half\0the other half\0abc").unwrap();
        let vault = Vault::new(&settings).unwrap();
        for text in
            ["the first half\0the other half\0abc", "the first halfthe other halfabc", "the other half"]
        {
            assert_eq!(vault.scrubber().scrub(text), "[REDACTED:secret:KEY]", "{text:?}");
        }
        assert!(vault.scrubber().unprotected().is_empty());
    }

    #[test]
    fn a_value_that_was_replaced_stays_inside_however_that_was_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings { secrets_dir: Some(dir.path().to_owned()), ..Settings::default() };
        // Readable for everybody, so nobody may have it; inside it stays all the same.
        let put = |value: &str| std::fs::write(dir.path().join("KEY"), value).unwrap();
        put("the first value of it");
        let vault = Vault::new(&settings).unwrap();
        put("the second value of it");
        vault.replace_patterns(&BTreeMap::new()).unwrap();
        put("the third value of it in full");
        vault.look(Duration::ZERO);
        for value in ["first", "second", "third"] {
            let text = format!("the {value} value of it in full");
            let clean = vault.scrubber().scrub(&text).into_owned();
            assert!(clean.starts_with("[REDACTED:secret:KEY]"), "{clean}");
        }
    }

    #[test]
    fn replaced_values_are_remembered_within_bounds() {
        let secret =
            |name: usize, value: usize| Secret { name: format!("N{name}"), value: format!("v{value}") };
        let mut retired = Vec::new();
        retire(&mut retired, secret(0, 0), &[]);
        for value in 0..100 {
            retire(&mut retired, secret(1, value), &[]);
            retire(&mut retired, secret(1, value), &[]);
        }
        assert_eq!(retired.len(), 1 + RETIRED_EACH, "one that changes often leaves the others alone");
        assert!(retired.contains(&secret(0, 0)) && retired.contains(&secret(1, 99)));
        for name in 2..1000 {
            retire(&mut retired, secret(name, 0), &[]);
        }
        assert_eq!((retired.len(), retired.last()), (RETIRED, Some(&secret(999, 0))));
        let still = SecretFile { secret: secret(5000, 0), problem: None, remark: None };
        retire(&mut retired, secret(5000, 0), &[still]);
        assert!(!retired.contains(&secret(5000, 0)), "it is still in force");
    }
}
