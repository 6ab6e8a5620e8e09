//! What each language needs, where it is found, and what would run.

use super::{Desk, Item, Section, State};
use tools::{LanguageSurvey, Need, survey};

pub(super) async fn look(desk: &Desk) -> anyhow::Result<Section> {
    let bound = desk.settings().runtime.as_ref().map(|config| &config.languages);
    let calls = desk.calls();
    let mut items = Vec::new();
    for call in &calls {
        let of = if calls.len() > 1 { format!("{}: ", call.workspace.name()) } else { String::new() };
        for language in survey(call).await? {
            let configured = bound.is_some_and(|bound| bound.contains_key(language.language));
            tell(&of, &language, configured, &mut items);
        }
    }
    Ok(Section { name: "languages", items })
}

fn tell(of: &str, survey: &LanguageSurvey, configured: bool, items: &mut Vec<Item>) {
    let name = survey.language;
    let there = survey.sandbox.as_ref().map(|sandbox| format!(", runs in sandbox \"{sandbox}\""));
    let here = if survey.here { "a project here" } else { "not in this workspace" };
    let text = format!("{here}{}", there.unwrap_or_default());
    items.push(Item::new(format!("{of}{name}"), State::Info, text));
    for need in &survey.needs {
        let item = Item::there(format!("{of}{name}/{}", need.binary), found(need), need.get).word(name);
        let tools = tools_of(need.purpose);
        let item = tools.iter().fold(item, |item, word| item.word(format!("{name}:{word}")));
        // Tests must be possible where the operator sent the language; linters are the project's choice.
        let configured = configured && tools.contains(&"run_tests");
        items.push(Item { configured, ..item });
    }
    for plan in &survey.plans {
        let (state, what) = match (&plan.runner, &plan.command) {
            (Some(runner), Some(command)) => (State::Info, format!("{runner}: {command}")),
            _ => (State::Info, "none".to_owned()),
        };
        let why = if plan.why.is_empty() { String::new() } else { format!(" ({})", plan.why.join("; ")) };
        items.push(Item::new(format!("{of}{name} {}", plan.tool), state, format!("{what}{why}")));
    }
}

/// The tools that a program is needed for.
fn tools_of(purpose: &str) -> Vec<&str> {
    let parts = purpose.split(", ").flat_map(|part| part.split(" and "));
    let tools = parts.flat_map(|part| match part {
        "running everything" => {
            ["run_tests", "run_lint", "run_typecheck", "run_format", "run_script"].to_vec()
        }
        "running tests" => vec!["run_tests"],
        "running scripts" => vec!["run_script"],
        tool if tool.starts_with("run_") => vec![tool],
        _ => Vec::new(),
    });
    tools.collect()
}

fn found(need: &Need) -> Result<String, String> {
    let Some(path) = &need.found else { return Err(format!("not found (for {})", need.purpose)) };
    let own = if need.own { ", the project's own" } else { "" };
    let place = format!("{}{own}", path.display());
    match (&need.broken, &need.version) {
        (Some(broken), _) => Err(format!("{place} does not run: {broken}")),
        (None, Some(version)) => Ok(format!("{place}, {version} (for {})", need.purpose)),
        (None, None) => Ok(format!("{place} (for {})", need.purpose)),
    }
}
