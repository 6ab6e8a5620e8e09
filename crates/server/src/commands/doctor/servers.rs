//! Language servers that this user's processes of this product run now.

use super::{Item, Section, State};

pub(super) fn look() -> Section {
    let mut items: Vec<Item> = tools::machine_servers()
        .into_iter()
        .map(|server| {
            let (processes, memory) = (server.processes, server.memory >> 20);
            let text = format!("{memory} MiB in {processes} process(es): {}", server.command);
            Item::new(server.folder.display().to_string(), State::Info, text)
        })
        .collect();
    if items.is_empty() {
        items.push(Item::new("servers", State::Info, "none runs"));
    }
    Section { name: "language servers", items }
}
