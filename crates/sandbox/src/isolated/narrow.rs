//! The same sandbox for work in one workspace alone, made when the first such work begins.

use super::{Builder, Isolated, plan::Tier, profile::Profile};
use crate::{FactoryError, Narrowing, Outcome, Request, Response, Sandbox};
use futures_util::future::BoxFuture;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// What a sandbox was narrowed to already.
#[derive(Default)]
pub(super) struct Narrowed(Mutex<Vec<(Narrowing, Arc<Isolated>)>>);

impl Narrowed {
    pub(super) fn take(&self) -> Vec<(Narrowing, Arc<Isolated>)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Builder {
    /// The same for one of its workspaces alone: the others are hidden, but for one that holds it or lies in it.
    #[must_use]
    pub fn narrowed(mut self, to: &Narrowing) -> Self {
        self.profile = self.profile.narrowed(to);
        self
    }

    /// Whether commands can be kept from changing a workspace in this tier: without mounts, `/tmp` is open to all.
    pub(super) fn check_read_only(&self, tier: Tier) -> Result<(), FactoryError> {
        let open = ["/tmp", "/var/tmp"].map(Path::new);
        let lies_open = |root: &PathBuf| open.iter().any(|place| root.starts_with(place));
        match self.profile.roots().iter().find(|root| lies_open(root)) {
            Some(root) if self.profile.read_only && tier == Tier::Landlock => {
                Err(FactoryError::Unavailable(format!(
                    "isolated: {} cannot be kept read-only in the tier {tier}, in which /tmp is open to all commands",
                    root.display()
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Profile {
    fn narrowed(self, to: &Narrowing) -> Self {
        let others = self.workspaces.into_iter().filter(|root| *root != to.workspace).collect();
        let workspaces = vec![to.workspace.clone()];
        // A look for repositories holds for the workspaces it was made in.
        Self { workspaces, others, read_only: to.read_only, looked: Arc::default(), ..self }
    }
}

impl Isolated {
    pub(super) fn narrow(self: Arc<Self>, to: &Narrowing) -> Option<Arc<dyn Sandbox>> {
        let only = self.shared.profile.workspaces == [to.workspace.clone()];
        // A closed one says so itself.
        if (only && self.shared.profile.read_only == to.read_only) || self.is_closed() {
            return Some(self);
        }
        let mut all = self.narrowed.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(known, _)| known == to) {
            return Some(Arc::clone(known) as Arc<dyn Sandbox>);
        }
        let builder = self.template.clone().tier(self.tier).narrowed(to);
        // Known without trying.
        builder.check_read_only(self.tier).ok()?;
        match builder.build() {
            Ok(narrowed) => {
                let narrowed = Arc::new(narrowed);
                all.push((to.clone(), Arc::clone(&narrowed)));
                Some(narrowed)
            }
            Err(_) if to.read_only => None,
            Err(why) => Some(Arc::new(Refusing { name: self.name.clone(), why: why.to_string() })),
        }
    }
}

/// Stands in for a sandbox that could not be made: what is asked for must not run in a wider one.
struct Refusing {
    name: String,
    why: String,
}

impl Sandbox for Refusing {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self, _: Request) -> BoxFuture<'_, Response> {
        Box::pin(async { Response::nothing(Outcome::Refused { why: self.why.clone() }) })
    }
}
