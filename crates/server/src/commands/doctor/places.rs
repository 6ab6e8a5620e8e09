//! Sandboxes and hooks that the configuration declares: whether they answer.

use super::{Desk, Item, Section, State, ask};
use futures_util::future::join_all;
use sandbox::Sandbox;
use std::sync::Arc;

pub(super) async fn look(desk: &Desk) -> Section {
    let Some(config) = &desk.settings().runtime else {
        return Section { name: "configuration", items: Vec::new() };
    };
    let runtime = desk.host.runtime();
    let mut items = vec![Item::new("file", State::Info, config.path.display().to_string())];
    let named = runtime.named().into_iter().map(|(used, sandbox)| answers(used, sandbox));
    items.extend(join_all(named).await);
    let hooks = runtime.hook_commands().into_iter().map(|(name, command, sandbox)| async move {
        let found = ask(&*sandbox, "sh", &["-c", "command -v -- \"$0\"", &command]).await;
        let found = found.map_err(|_| format!("{command}: not found in sandbox \"{}\"", sandbox.name()));
        let item = Item::there(format!("hook {name}"), found, "mend its `command` in the configuration");
        Item { configured: true, ..item }
    });
    items.extend(join_all(hooks).await);
    Section { name: "configuration", items }
}

/// A sandbox that runs a command and says so.
async fn answers(used: String, sandbox: Arc<dyn Sandbox>) -> Item {
    let found = ask(&*sandbox, "sh", &["-c", "echo it runs commands"]).await;
    let name = format!("{used}: {}", sandbox.name());
    Item { configured: true, ..Item::there(name, found, "start it, or mend it in the configuration") }
}
