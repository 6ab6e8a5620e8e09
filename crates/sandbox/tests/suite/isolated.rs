//! Mode `isolated`, in each tier that this host allows.

use sandbox::{
    isolated::{Isolated, Network, Tier},
    suite::{self, Subject},
};
use std::{path::Path, sync::Arc};

pub(crate) fn build(tier: Tier, workspace: &Path) -> Isolated {
    Isolated::builder("isolated").workspace(workspace).tier(tier).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_pass_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(Arc::new(build(Tier::Namespaces, scratch.path())), scratch.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_without_network_pass_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    let builder = Isolated::builder("isolated").workspace(scratch.path()).network(Network::None);
    suite::run(Subject::new(Arc::new(builder.tier(Tier::Namespaces).build().unwrap()), scratch.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn landlock_passes_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    suite::run(Subject::new(Arc::new(build(Tier::Landlock, scratch.path())), scratch.path())).await;
}
