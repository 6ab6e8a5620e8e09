//! Every transport says hello.

use crate::launch;
use testkit::Workspace;

#[test]
fn every_transport_says_hello() {
    let workspace = Workspace::with(&[("a.txt", "a\n")]);
    let launch = launch(&workspace);
    let hello = launch.stdio().initialize();
    assert_eq!(hello["serverInfo"]["name"], "codegen-sandbox");
    let served = launch.serve();
    assert_eq!(served.http().initialize(), hello);
    assert_eq!(served.sse().initialize(), hello);
}
