//! Container engines: their clients, and whether the engine answers.

use super::{Desk, Item, Section, ask};
use futures_util::future::join_all;

/// Client, what makes it print the engine's version, how to get it.
const ENGINES: [(&str, &[&str], &str); 3] = [
    ("docker", &["version", "--format", "{{.Server.Version}}"], "https://docs.docker.com/engine/install"),
    ("podman", &["version", "--format", "{{.Client.Version}}"], "the package is called podman"),
    (
        "kubectl",
        &["version", "--output=yaml", "--request-timeout=5s"],
        "https://kubernetes.io/docs/tasks/tools",
    ),
];

pub(super) async fn look(desk: &Desk) -> Section {
    let looked = ENGINES.iter().map(|(client, args, get)| async move {
        let found = match ask(&desk.plain, "sh", &["-c", "command -v -- \"$0\"", client]).await {
            Err(_) => Err("not found on PATH".to_owned()),
            Ok(path) => match ask(&desk.plain, client, args).await {
                Ok(version) if *client == "kubectl" => Ok(format!("{path}, the cluster answers ({version})")),
                Ok(version) => Ok(format!("{path}, version {version}")),
                Err(why) => Err(format!("{path}, but the engine does not answer: {why}")),
            },
        };
        let get = if found.as_ref().is_err_and(|why| why.contains("answer")) {
            "start it, or give access to it"
        } else {
            get
        };
        Item::there(*client, found, get).word(*client)
    });
    Section { name: "engines", items: join_all(looked).await }
}
