//! Schemas without noise, and argument errors that name the field.

use crate::ToolError;
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

/// Decodes arguments; a failure names the field, what it should be and what it was.
pub(crate) fn decode<T: DeserializeOwned + JsonSchema>(
    tool: &str,
    args: Map<String, Value>,
) -> Result<T, ToolError> {
    let args = Value::Object(args);
    // Borrowed, so that a failure can be looked at again without a copy of every good call's arguments.
    T::deserialize(&args).or_else(|_| {
        serde_path_to_error::deserialize(&args).map_err(|error| explain::<T>(tool, &args, &error))
    })
}

fn explain<T: JsonSchema>(
    tool: &str,
    args: &Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> ToolError {
    let schema = input::<T>();
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
    let takes: Vec<&str> = properties.keys().map(String::as_str).collect();
    ToolError::with_hint(format!("{tool}: {}", error.inner()), format!("{tool} takes: {}", takes.join(", ")))
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
        #[expect(dead_code, reason = "only its schema matters")]
        limit: Option<u32>,
    }

    fn message(args: Value) -> String {
        let Value::Object(args) = args else { panic!("an object") };
        decode::<Args>("Probe", args).unwrap_err().to_string()
    }

    #[test]
    fn schemas_carry_no_noise() {
        assert_eq!(
            Value::Object(input::<Args>()),
            json!({
                "type": "object",
                "properties": {"name": {"type": "string"}, "limit": {"type": "integer"}},
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
        assert_eq!(message(json!({})), "Probe: missing field `name`\nProbe takes: limit, name");
        assert!(message(json!({"name": "a", "lmit": 1})).contains("unknown field `lmit`"));
    }
}
