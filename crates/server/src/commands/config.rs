//! `config`: looking at a RuntimeConfig file without serving.

use super::print;
use crate::place;
use config::Settings;
use std::process::ExitCode;

/// Checks the file of these settings, down to the sandboxes it declares.
pub(crate) async fn check(settings: Settings) -> anyhow::Result<ExitCode> {
    place::register(&settings)?;
    let runtime = place::runtime(&settings, settings.runtime.as_ref())?;
    runtime.close().await;
    if let Some(config) = &settings.runtime {
        print(&format!(
            "{}: ok ({} sandboxes, {} languages, {} hooks)\n",
            config.path.display(),
            config.sandboxes.len(),
            config.languages.len(),
            config.hooks.len()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the JSON Schema of the file.
pub(crate) fn schema() -> anyhow::Result<ExitCode> {
    print(&format!("{}\n", serde_json::to_string_pretty(&config::json_schema())?));
    Ok(ExitCode::SUCCESS)
}
