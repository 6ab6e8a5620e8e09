//! Fixture tools that need several rounds: they ask the client for input and are called again with it.

use super::{Context, typed};
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequiredResult,
        InputResponses,
    },
};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// Keeps clients from making up a state.
static KEY: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().to_string());

fn elicit(message: &str, property: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": message,
        "requestedSchema": {"type": "object", "properties": {property: {"type": kind}}, "required": [property]}
    }})
}

fn sample(text: &str, tokens: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": tokens
    }})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// What a tool asks for in its first round.
fn first(name: &str) -> Option<Vec<(&'static str, Value)>> {
    let name_question = || elicit("What is your name?", "name", "string");
    Some(match name {
        "elicitation" => vec![("user_name", name_question())],
        "sampling" => vec![("capital_question", sample("What is the capital of France?", 100))],
        "list_roots" => vec![("client_roots", roots())],
        "request_state" | "tampered_state" => vec![("confirm", elicit("Please confirm", "ok", "boolean"))],
        "multiple_inputs" => vec![
            ("user_name", name_question()),
            ("greeting", sample("Generate a greeting", 50)),
            ("client_roots", roots()),
        ],
        "multi_round" => vec![("step1", elicit("Step 1: What is your name?", "name", "string"))],
        "capabilities" => {
            vec![("user_name", name_question()), ("greeting", sample("Generate a greeting", 50))]
        }
        _ => return None,
    })
}

/// The answer of a tool of this family; nothing for other tools.
pub(super) fn answer(
    request: &CallToolRequestParams,
    context: &Context,
) -> Result<Option<CallToolResponse>, ErrorData> {
    if request.name == "test_streaming_elicitation" {
        return ask(vec![("user_name", elicit("What is your name?", "name", "string"))], None)
            .map(|asked| Some(asked.into()));
    }
    let Some(name) = request.name.strip_prefix("test_input_required_result_") else { return Ok(None) };
    let Some(mut wanted) = first(name) else { return Ok(None) };
    if name == "capabilities" {
        let capabilities = context.client_capabilities().unwrap_or_default();
        wanted.retain(|(_, ask)| match ask["method"].as_str() {
            Some("elicitation/create") => capabilities.elicitation.is_some(),
            _ => true,
        });
    }
    let state = request.request_state.as_deref().map(unseal).transpose()?;
    if name == "multi_round" && state.as_deref() == Some("step2") {
        wanted = vec![("step2", elicit("Step 2: What is your favorite color?", "color", "string"))];
    }
    let stateful = matches!(name, "request_state" | "tampered_state" | "multiple_inputs" | "multi_round");
    let label = state.clone().unwrap_or_else(|| name.to_owned());
    let answers = request.input_responses.as_ref();
    let complete = wanted
        .iter()
        .all(|(key, _)| answers.and_then(|answers| answers.get(*key)).is_some_and(Value::is_object));
    if !complete || (stateful && state.is_none()) {
        return ask(wanted, stateful.then_some(label)).map(|asked| Some(asked.into()));
    }
    if name == "multi_round" && state.as_deref() != Some("step2") {
        let next = vec![("step2", elicit("Step 2: What is your favorite color?", "color", "string"))];
        return ask(next, Some("step2".to_owned())).map(|asked| Some(asked.into()));
    }
    let text = summary(name, answers);
    Ok(Some(CallToolResult::success(vec![ContentBlock::text(text)]).into()))
}

fn summary(name: &str, answers: Option<&InputResponses>) -> String {
    let answer = |key: &str| answers.and_then(|answers| answers.get(key)).cloned().unwrap_or_default();
    match name {
        "elicitation" => {
            format!("Hello, {}!", answer("user_name")["content"]["name"].as_str().unwrap_or("stranger"))
        }
        "sampling" => format!("The model said: {}", answer("capital_question")["content"]),
        "list_roots" => format!("Roots: {}", answer("client_roots")["roots"]),
        "request_state" => "state-ok".to_owned(),
        _ => format!("Done with: {}", json!(answers)),
    }
}

/// The prompt of this family: its context, or what it asks for.
pub(super) fn prompt(
    answers: Option<&InputResponses>,
) -> Result<Result<String, InputRequiredResult>, ErrorData> {
    let context = answers.and_then(|answers| answers.get("user_context")?["content"]["context"].as_str());
    match context {
        Some(context) => Ok(Ok(context.to_owned())),
        None => {
            let question = elicit("What context should the prompt use?", "context", "string");
            ask(vec![("user_context", question)], None).map(Err)
        }
    }
}

fn ask(wanted: Vec<(&str, Value)>, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    let requests: Map<String, Value> = wanted.into_iter().map(|(key, ask)| (key.to_owned(), ask)).collect();
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = json!(seal(&state));
    }
    typed(result)
}

fn seal(state: &str) -> String {
    let digest = Sha256::digest(format!("{}{state}{}", *KEY, *KEY));
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{state}.{digest}")
}

fn unseal(sealed: &str) -> Result<String, ErrorData> {
    let state = sealed.rsplit_once('.').map(|(state, _)| state).filter(|state| seal(state) == sealed);
    state.map(str::to_owned).ok_or_else(|| ErrorData::invalid_params("requestState is not one of ours", None))
}
