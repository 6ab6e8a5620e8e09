//! What every shipped tool must have. Class, description and arguments are fields without a default, so a
//! tool without them does not compile; the rest is looked at here.

use crate::support::{Bench, Setup};
use serde_json::{Map, Value};
use std::{collections::BTreeSet, fs, path::Path};

/// Bytes of name, description and input schema of all tools of files and shell: every conversation pays them.
const BUDGET: usize = 5 * 1024;

fn properties(schema: &Map<String, Value>) -> &Map<String, Value> {
    schema["properties"].as_object().unwrap()
}

#[tokio::test]
async fn each_has_a_name_of_its_own_and_a_short_description() {
    let bench = Bench::new();
    let mut names = BTreeSet::new();
    for tool in bench.host.tools().listed() {
        let spec = tool.spec;
        assert!(names.insert(spec.name.to_lowercase()), "{} is there twice", spec.name);
        assert!((20..=400).contains(&spec.description.len()), "{}: {}", spec.name, spec.description);
        assert!(spec.description.ends_with('.'), "{}: {}", spec.name, spec.description);
        assert!(!spec.description.contains("  "), "{}: {}", spec.name, spec.description);
    }
}

#[tokio::test]
async fn each_has_a_schema_without_noise_in_which_everything_has_a_type() {
    let bench = Bench::new();
    for tool in bench.host.tools().listed() {
        let (name, schema) = (tool.spec.name, &tool.input_schema);
        assert_eq!(schema["type"], "object", "{name}");
        assert_eq!(schema["additionalProperties"], false, "{name} must refuse unknown arguments");
        for (key, property) in properties(schema) {
            assert!(property.get("type").or(property.get("enum")).is_some(), "{name}.{key}: {property}");
        }
        for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(properties(schema).contains_key(key.as_str().unwrap()), "{name}: {key}");
        }
        let text = Value::Object(schema.clone()).to_string();
        for noise in ["$schema", "\"title\"", "\"format\"", "$ref", "\"null\"", "\"default\":null"] {
            assert!(!text.contains(noise), "{name}: {noise} in {text}");
        }
    }
}

#[tokio::test]
async fn whoever_gives_feedback_shows_how_to_turn_it_off() {
    let bench = Bench::new();
    let shown = |tool: &&tools::Listed| properties(&tool.input_schema).contains_key("feedback");
    let names: Vec<&str> = bench.host.tools().listed().iter().filter(shown).map(|it| it.spec.name).collect();
    let expected = "Write Edit apply_patch edit_function_body change_function_signature insert_after_method \
                    replace_symbol insert_before_symbol insert_after_symbol delete_symbol";
    assert_eq!(names.join(" "), expected);
}

#[tokio::test]
async fn each_takes_what_the_pipeline_offers() {
    let bench = Setup { workspaces: &["a", "b"], ..Setup::default() }.bench();
    for tool in bench.host.tools().listed() {
        let properties = properties(&tool.input_schema);
        assert!(properties.contains_key("workspace"), "{}", tool.spec.name);
        for key in ["wait", "handle"] {
            assert_eq!(properties.contains_key(key), tool.spec.long, "{}: {key}", tool.spec.name);
        }
    }
}

#[tokio::test]
async fn each_is_called_in_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite");
    let mut sources = String::new();
    read_all(&folder, &mut sources);
    let bench = Bench::new();
    for tool in bench.host.tools().listed() {
        let called = format!("\"{}\", json!(", tool.spec.name);
        let called_by_name = format!("\"{}\"", tool.spec.name);
        assert!(
            sources.contains(&called) || sources.matches(&called_by_name).count() > 1,
            "no test calls {}",
            tool.spec.name
        );
    }
}

fn read_all(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_all(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[tokio::test]
async fn files_and_shell_stay_within_their_budget() {
    let mut setup = Setup::default();
    let mut sizes = Vec::new();
    // Groups without a tool yet are no error here.
    setup.settings.tools.0.clear();
    for tool in setup.bench().host.tools().listed() {
        if ["files", "shell"].contains(&tool.spec.group.name()) && !tool.spec.name.starts_with("watch_") {
            let schema = Value::Object(tool.input_schema.clone()).to_string();
            sizes.push((tool.spec.name, tool.spec.name.len() + tool.spec.description.len() + schema.len()));
        }
    }
    let total: usize = sizes.iter().map(|(_, size)| size).sum();
    println!("{total} bytes: {sizes:?}");
    assert!(total < BUDGET, "{total} bytes: {sizes:?}");
}
