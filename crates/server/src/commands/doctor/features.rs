//! Programs behind single tools.

use super::{Desk, Item, Section, ask};

pub(super) async fn look(desk: &Desk) -> Section {
    let runtime = desk.host.runtime();
    let sandbox = &runtime.place().sandbox;
    let dot = ask(&**sandbox, "dot", &["-V"]).await.map(|version| format!("{version} (for render_dot)"));
    let dot = dot.map_err(|why| format!("dot: {why} (for render_dot)"));
    let items = vec![Item::there("graphviz", dot, "the package is called graphviz").word("graphviz")];
    Section { name: "features", items }
}
