//! How each workspace is kept in view.

use super::{Desk, Item, Section, State};
use std::time::Duration;

/// How often a workspace that is still being read is asked again.
const AGAIN: Duration = Duration::from_millis(20);
/// A workspace that takes longer to read is told of as it is.
const TURNS: usize = 500;

pub(super) async fn look(desk: &Desk) -> Section {
    let mut items = Vec::new();
    for (name, workspace) in &desk.host.workspaces {
        let mut status = workspace.live_status();
        for _ in 0..TURNS {
            if status.is_some() {
                break;
            }
            tokio::time::sleep(AGAIN).await;
            status = workspace.live_status();
        }
        let root = workspace.root().display();
        let item = match status {
            None => Item::new(name, State::Info, format!("{root}: still being read")),
            Some(status) => {
                let (mode, why) = (format!("{:?}", status.mode).to_lowercase(), &status.why);
                let (files, index) = (status.files, status.index_bytes >> 10);
                let mut text = format!("{root}: {mode} ({why}), {files} files, index {index} KiB");
                if let Some(limit) = status.left_out_above {
                    let left = status.left_out_files;
                    text += &format!("; {left} files above {limit} bytes left out, raise --index-budget");
                }
                Item::new(name, State::Info, text)
            }
        };
        items.push(item);
    }
    Section { name: "workspaces", items }
}
