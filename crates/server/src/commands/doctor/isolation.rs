//! How strongly commands are fenced in here, by what.

use super::{Desk, Item, Section, State};
use crate::place;
use sandbox::isolated::Tier;

const WAY_OUT: &str = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, \
                       or kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu), or use a newer kernel";

pub(super) fn look(desk: &Desk) -> Section {
    let probe = place::probe(desk.settings());
    let found = probe.tier.map(|tier| format!("{tier} (Landlock version {})", probe.kernel.landlock));
    let none = || probe.refused.first().map_or_else(|| "none".to_owned(), |(_, why)| why.clone());
    let tier = Item::there("isolation", found.ok_or_else(none), WAY_OUT).word("isolation");
    let mut items =
        vec![tier, Item::new("in force", State::Info, place::in_force(desk.settings(), probe.clone()).text)];
    if probe.tier == Some(Tier::Landlock) {
        items.extend(
            probe
                .refused
                .iter()
                .map(|(tier, why)| Item::new(tier.name(), State::Missing, format!("refused: {why}"))),
        );
    }
    for (guarantee, holds) in probe.table() {
        let found = holds.map(|()| guarantee.text.to_owned()).map_err(|why| format!("not held: {why}"));
        items.push(Item::there(guarantee.name, found, WAY_OUT).word(guarantee.name));
    }
    for cap in probe.caps() {
        let value = match (cap.name, cap.value) {
            (_, None) => "none unless configured".to_owned(),
            ("memory" | "file_size", Some(bytes)) => format!("{} MiB, held by {}", bytes >> 20, cap.by),
            (_, Some(number)) => format!("{number}, held by {}", cap.by),
        };
        items.push(Item::new(format!("cap {}", cap.name), State::Info, value));
    }
    Section { name: "isolation", items }
}
