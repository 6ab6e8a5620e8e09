//! Schemas without noise, and argument errors that name the field.

use crate::{Spec, ToolError};
use config::did_you_mean;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The input schema of `T`: an object schema without `$schema`, titles, formats or null unions.
pub(crate) fn input<T: JsonSchema>() -> Map<String, Value> {
    let mut schema = generate::<T>();
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    schema
}

/// What the pipeline itself takes out of a call's arguments.
pub(crate) fn envelope(spec: &Spec, several_workspaces: bool) -> Map<String, Value> {
    let mut properties = Map::new();
    if spec.long {
        properties.insert("wait".into(), json!({"type": "number", "description": "s; then a handle"}));
        let handle = json!({"type": "string", "description": "go on waiting; nothing else"});
        properties.insert("handle".into(), handle);
    }
    if several_workspaces {
        properties.insert("workspace".into(), json!({"type": "string"}));
    }
    properties
}

/// Admits the answer to who waits no longer: a handle, and nothing of what the tool finds in the end. Clients refuse an
/// answer that is not as the schema says, or has no structured part at all, and its text with it.
pub(crate) fn or_handle(output: &mut Map<String, Value>) {
    output.remove("required");
    if let Some(Value::Object(properties)) = output.get_mut("properties") {
        properties.insert("handle".into(), json!({"type": "string"}));
    }
}

/// The output schema of `T`, equally thrifty.
pub(crate) fn output<T: JsonSchema>() -> Map<String, Value> {
    generate::<T>()
}

fn generate<T: JsonSchema>() -> Map<String, Value> {
    let generator = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true).into_generator();
    let mut value = generator.into_root_schema_for::<T>().to_value();
    tidy(&mut value);
    match value {
        Value::Object(mut map) => {
            map.remove("description");
            map
        }
        _ => Map::new(),
    }
}

/// Drops what costs tokens and tells a model nothing.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for noise in ["$schema", "title", "format"] {
                if map.get(noise).is_some_and(Value::is_string) {
                    map.remove(noise);
                }
            }
            // An integer that cannot be negative says so by its description or default.
            if map.get("minimum").and_then(Value::as_f64) == Some(0.0) {
                map.remove("minimum");
            }
            if map.get("default").is_some_and(Value::is_null) {
                map.remove("default");
            }
            if let Some(Value::Array(types)) = map.get_mut("type") {
                types.retain(|name| name != "null");
                if let [single] = types.as_slice() {
                    let single = single.clone();
                    map.insert("type".to_owned(), single);
                }
            }
            if let Some(Value::Array(variants)) = map.get_mut("anyOf") {
                variants.retain(|variant| variant.get("type") != Some(&json!("null")));
                if variants.len() == 1
                    && let Some(Value::Object(only)) = variants.pop()
                {
                    map.remove("anyOf");
                    for (key, value) in only {
                        map.entry(key).or_insert(value);
                    }
                }
            }
            map.values_mut().for_each(tidy);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

/// Decodes arguments; a failure names the field, what it should be and what it was. `envelope`: what the tool takes
/// besides.
pub(crate) fn decode<T: DeserializeOwned + JsonSchema>(
    tool: &str,
    args: Map<String, Value>,
    envelope: impl FnOnce() -> Map<String, Value>,
) -> Result<T, ToolError> {
    let mut args = Value::Object(args);
    // Borrowed, so that a failure can be looked at again without a copy of every good call's arguments.
    T::deserialize(&args).or_else(|_| {
        let schema = Value::Object(input::<T>());
        by_schema(&mut args, &schema);
        serde_path_to_error::deserialize(&args)
            .map_err(|error| explain(tool, &args, &schema, envelope(), &error))
    })
}

/// Takes what a schema admits and Rust's types do not: whole numbers with a fraction of zero, as some clients write
/// every number, and nulls for what may be left out.
fn by_schema(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let required = |name: &str| {
                schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
            };
            let known = |name: &str| schema["properties"].get(name).is_some();
            fields.retain(|name, value| !value.is_null() || required(name) || !known(name));
            for (name, value) in fields {
                by_schema(value, &schema["properties"][name.as_str()]);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| by_schema(item, &schema["items"])),
        Value::Number(number) if number.is_f64() && schema["type"] == "integer" => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0);
            if let Some(whole) = whole.and_then(|whole| format!("{whole:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        _ => {}
    }
}

fn explain(
    tool: &str,
    args: &Value,
    schema: &Value,
    envelope: Map<String, Value>,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> ToolError {
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let path = error.path().to_string();
    let field = path.split(['.', '[']).next().filter(|field| properties.contains_key(*field));
    if let Some(field) = field
        && let Some(given) = args.get(field)
    {
        let mut expected = expected(&properties[field]);
        if given.as_f64().is_some_and(|number| number < 0.0) {
            expected.push_str(" of at least 0");
        }
        return ToolError::caller(format!("{tool}: `{path}` must be {expected}, got {}", short(given)));
    }
    let mut takes: Vec<&str> = properties.keys().chain(envelope.keys()).map(String::as_str).collect();
    takes.sort_unstable();
    let mut why = error.inner().to_string();
    if let Some(unknown) = why.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next()) {
        // What is expected follows, and all of it.
        why = format!("unknown field `{unknown}`{}", did_you_mean(unknown, takes.iter().copied()));
    }
    ToolError::with_hint(format!("{tool}: {why}"), format!("{tool} takes: {}", takes.join(", ")))
}

fn expected(property: &Value) -> String {
    if let Some(Value::Array(choices)) = property.get("enum") {
        let choices: Vec<String> =
            choices.iter().filter(|choice| !choice.is_null()).map(ToString::to_string).collect();
        return format!("one of {}", choices.join(", "));
    }
    match property.get("type").and_then(Value::as_str) {
        Some("integer") => "a whole number".to_owned(),
        Some("array") => {
            match property.get("items").and_then(|items| items.get("type")).and_then(Value::as_str) {
                Some(item) => format!("a list of {item}s"),
                None => "a list".to_owned(),
            }
        }
        Some("object") => "an object".to_owned(),
        Some(other) => format!("a {other}"),
        None => "another value".to_owned(),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Args {
        #[expect(dead_code, reason = "only its schema matters")]
        name: String,
        limit: Option<u32>,
        #[serde(default)]
        #[schemars(with = "Option<Vec<u32>>")]
        lines: Vec<u32>,
    }

    fn message(args: Value) -> String {
        let Value::Object(args) = args else { panic!("an object") };
        decode::<Args>("Probe", args, Map::new).unwrap_err().to_string()
    }

    #[test]
    fn schemas_carry_no_noise() {
        assert_eq!(
            Value::Object(input::<Args>()),
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "limit": {"type": "integer"},
                    "lines": {"type": "array", "items": {"type": "integer"}, "default": []},
                },
                "required": ["name"],
                "additionalProperties": false,
            })
        );
    }

    #[test]
    fn errors_name_the_field_and_the_type() {
        assert_eq!(
            message(json!({"name": "a", "limit": "ten"})),
            "Probe: `limit` must be a whole number, got \"ten\""
        );
        assert_eq!(message(json!({})), "Probe: missing field `name`\nProbe takes: limit, lines, name");
        assert_eq!(
            message(json!({"name": "a", "lmit": 1})),
            "Probe: unknown field `lmit`; did you mean \"limit\"?\nProbe takes: limit, lines, name"
        );
        assert_eq!(message(json!({"name": null})), "Probe: `name` must be a string, got null");
        assert_eq!(
            message(json!({"name": "a", "limit": 2.5})),
            "Probe: `limit` must be a whole number, got 2.5"
        );
    }

    #[test]
    fn what_the_schema_admits_is_taken() {
        for (given, limit, lines) in [
            (json!({"name": "a", "limit": 2.0, "lines": [1.0, 2e1]}), Some(2), vec![1, 20]),
            (json!({"name": "a", "limit": null, "lines": null}), None, vec![]),
        ] {
            let Value::Object(given) = given else { panic!("an object") };
            let args = decode::<Args>("Probe", given, Map::new).unwrap();
            assert_eq!((args.limit, args.lines), (limit, lines));
        }
    }
}
