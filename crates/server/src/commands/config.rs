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

#[cfg(test)]
mod tests {
    use sandbox::{FactoryError, global_registry};
    use serde_json::{Map, Value};

    #[test]
    fn the_schema_has_the_keys_of_every_mode() {
        let schema = config::json_schema();
        let choices = schema["$defs"]["SandboxBlock"]["oneOf"].as_array().unwrap();
        let unknown = Map::from_iter([("no such key".to_owned(), Value::Null)]);
        let modes = global_registry().modes();
        assert_eq!(modes.len() + 1, choices.len(), "and one for modes that others add");
        for mode in modes {
            let Err(FactoryError::UnknownKey { mut known, .. }) =
                global_registry().lookup(&mode).unwrap().build("a", &unknown)
            else {
                panic!("{mode} takes any key")
            };
            let choice = choices.iter().find(|choice| choice["properties"]["mode"]["const"] == mode.as_str());
            let choice = choice.unwrap_or_else(|| panic!("{mode} is not in the schema"));
            let mut keys: Vec<&String> = choice["properties"].as_object().unwrap().keys().collect();
            known.push("mode".to_owned());
            known.sort();
            keys.sort();
            assert_eq!(keys, known.iter().collect::<Vec<_>>(), "{mode}");
            assert_eq!(choice["additionalProperties"], false);
        }
    }
}
