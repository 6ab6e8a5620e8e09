//! A tool's arguments as flags, derived from its schema.

use config::did_you_mean;
use serde_json::{Map, Value};
use std::{fmt::Write, io::Read};
use tools::{Listed, Toolset};

/// What a line of words means.
#[derive(Debug, PartialEq)]
pub(crate) enum Parsed {
    /// A call.
    Call {
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Map<String, Value>,
    },
    /// The user wants to know how.
    Help(String),
}

/// Reads `Tool --key value …` or `Tool --json '{…}'`.
///
/// # Errors
/// What is wrong and what would be right, in words.
pub(crate) fn parse(tools: &Toolset, words: &[String]) -> Result<Parsed, String> {
    let Some((name, rest)) = words.split_first() else {
        return Err(format!("name a tool: {}", names(tools)));
    };
    let Some(tool) = tools.listed().iter().find(|tool| tool.spec.name == name) else {
        let mean = did_you_mean(name, tools.names());
        return Err(format!("unknown tool \"{name}\"; registered: {}{mean}", names(tools)));
    };
    if rest.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Parsed::Help(help(tool)));
    }
    let arguments =
        read(tool, rest).map_err(|why| format!("{why}\ntry: codegen-sandbox call {name} --help"))?;
    Ok(Parsed::Call { tool: name.clone(), arguments })
}

fn names(tools: &Toolset) -> String {
    tools.names().collect::<Vec<_>>().join(", ")
}

fn read(tool: &Listed, words: &[String]) -> Result<Map<String, Value>, String> {
    let properties = properties(tool);
    let mut arguments = Map::new();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let flag =
            word.strip_prefix("--").ok_or_else(|| format!("\"{word}\" is not a flag; write --key value"))?;
        let (flag, mut given) = match flag.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (flag, None),
        };
        if flag == "json" {
            let text = given.take().or_else(|| words.next().cloned()).ok_or("--json needs an object")?;
            arguments.append(&mut object(&text)?);
            continue;
        }
        let key = flag.replace('-', "_");
        let Some(property) = properties.get(&key) else {
            let hint =
                misplaced(flag).unwrap_or_else(|| did_you_mean(&key, properties.keys().map(String::as_str)));
            return Err(format!("{} takes no --{flag}{hint}", tool.spec.name));
        };
        let kind = property.get("type").and_then(Value::as_str).unwrap_or_default();
        let value = match (kind, given) {
            ("boolean", None) => {
                let said = words.next_if(|word| matches!(word.as_str(), "true" | "false"));
                Value::Bool(said.is_none_or(|word| word == "true"))
            }
            (_, Some(text)) => value(&key, kind, &text)?,
            (_, None) => {
                let text = words.next().ok_or_else(|| format!("--{flag} needs a value"))?;
                value(&key, kind, text)?
            }
        };
        match (arguments.get_mut(&key), value) {
            (Some(Value::Array(all)), Value::Array(more)) => all.extend(more),
            (_, value) => drop(arguments.insert(key, value)),
        }
    }
    // Who goes on waiting repeats nothing.
    let missing = if arguments.contains_key("handle") {
        Vec::new()
    } else {
        required(tool).into_iter().filter(|key| !arguments.contains_key(*key)).collect()
    };
    match missing.as_slice() {
        [] => Ok(arguments),
        keys => Err(format!("{} needs --{}", tool.spec.name, keys.join(", --"))),
    }
}

fn required(tool: &Listed) -> Vec<&str> {
    let names = tool.input_schema.get("required").and_then(Value::as_array);
    names.map(|names| names.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Flags of `call` itself that came too late.
fn misplaced(flag: &str) -> Option<String> {
    const OURS: &[&str] = &[
        "workspace",
        "workspaces",
        "readonly",
        "tools",
        "secrets-dir",
        "log",
        "format",
        "max-calls",
        "max-body",
        "index-budget",
        "grace",
        "config",
    ];
    OURS.contains(&flag).then(|| format!("; put it before the tool: call --{flag} …"))
}

fn value(key: &str, kind: &str, text: &str) -> Result<Value, String> {
    let must = |what: &str| format!("--{key} must be {what}, got \"{text}\"");
    match kind {
        "integer" => text.parse::<i64>().map(Value::from).map_err(|_| must("a whole number")),
        "number" => text.parse::<f64>().map(Value::from).map_err(|_| must("a number")),
        "boolean" => text.parse::<bool>().map(Value::from).map_err(|_| must("true or false")),
        // A list is JSON, or one item of it: the flag may be repeated.
        "array" => match serde_json::from_str(text) {
            Ok(list @ Value::Array(_)) => Ok(list),
            Ok(item @ Value::Object(_)) => Ok(Value::Array(vec![item])),
            _ => Ok(Value::Array(vec![Value::from(text)])),
        },
        "object" => object(text).map(Value::Object),
        _ => Ok(Value::from(text)),
    }
}

/// An object as JSON; `-` reads it from standard input.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    let mut piped = String::new();
    let text = if text == "-" {
        std::io::stdin().read_to_string(&mut piped).map_err(|error| format!("standard input: {error}"))?;
        &piped
    } else {
        text
    };
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

fn properties(tool: &Listed) -> &Map<String, Value> {
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    tool.input_schema.get("properties").and_then(Value::as_object).unwrap_or(&NONE)
}

fn help(tool: &Listed) -> String {
    let name = tool.spec.name;
    let mut text =
        format!("{}\n\nUsage: codegen-sandbox call {name} [--key value]…\n\n", tool.spec.description);
    let required = required(tool);
    for (key, property) in properties(tool) {
        let must = if required.contains(&key.as_str()) { " (required)" } else { "" };
        let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
        let _ = writeln!(text, "  {:<34} {about}{must}", format!("--{key} <{}>", kind(property)));
    }
    let _ = writeln!(text, "  {:<34} all arguments at once; - reads standard input", "--json <object>");
    let _ = writeln!(text, "  {:<34} a further call in the same session", "--then <Tool> …");
    text
}

fn kind(property: &Value) -> String {
    if let Some(Value::Array(choices)) = property.get("enum") {
        let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
        return choices.join("|");
    }
    property.get("type").and_then(Value::as_str).unwrap_or("value").to_owned()
}
