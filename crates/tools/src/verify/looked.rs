//! What looks into sandboxes found, kept for a moment: programs do not move from one edit to the next, and a look
//! costs a process.

use crate::Place;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long an answer is believed. What was not found is looked for again at once.
const FRESH: Duration = Duration::from_secs(30);

/// The variables of a place.
pub(super) type Variables = Arc<BTreeMap<String, String>>;

/// Answers by place.
#[derive(Default)]
pub(crate) struct Looked(Mutex<Vec<Answers>>);

struct Answers {
    place: Place,
    since: Instant,
    variables: Option<Variables>,
    programs: BTreeMap<(PathBuf, String), PathBuf>,
}

impl Looked {
    /// Where a program is, when that was asked a moment ago.
    pub(super) fn program(&self, place: &Place, root: &Path, binary: &str) -> Option<PathBuf> {
        let mut all = self.lock();
        answers(&mut all, place).programs.get(&(root.to_owned(), binary.to_owned())).cloned()
    }

    /// Keeps where a program is.
    pub(super) fn found(&self, place: &Place, root: &Path, binary: &str, path: PathBuf) {
        let mut all = self.lock();
        answers(&mut all, place).programs.insert((root.to_owned(), binary.to_owned()), path);
    }

    /// The variables of a place, when they were asked for a moment ago.
    pub(super) fn variables(&self, place: &Place) -> Option<Variables> {
        answers(&mut self.lock(), place).variables.clone()
    }

    /// Keeps the variables of a place.
    pub(super) fn saw(&self, place: &Place, variables: Variables) {
        answers(&mut self.lock(), place).variables = Some(variables);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Answers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answers<'a>(all: &'a mut Vec<Answers>, place: &Place) -> &'a mut Answers {
    all.retain(|answers| answers.since.elapsed() < FRESH);
    let at = all.iter().position(|answers| answers.place.is(place)).unwrap_or_else(|| {
        let (place, programs) = (place.clone(), BTreeMap::new());
        all.push(Answers { place, since: Instant::now(), variables: None, programs });
        all.len() - 1
    });
    &mut all[at]
}
