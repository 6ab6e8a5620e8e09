//! Fixture tools.

use super::{Context, PNG, WAV, complete, typed};
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestParams, CallToolResult, ClientCapabilities, ContentBlock, LoggingLevel,
        LoggingMessageNotificationParam, ProgressNotificationParam, ServerRequest, Tool,
    },
};
use serde_json::{Value, json};
use std::time::Duration;

/// The tool whose schema must arrive as it is.
pub(super) const SCHEMA_TOOL: &str = "json_schema_2020_12_tool";

const STEP: Duration = Duration::from_millis(50);

/// Whether a tool of this name is a fixture.
pub(super) fn is_one(name: &str) -> bool {
    all().is_ok_and(|tools| tools.iter().any(|tool| tool.name == name))
}

pub(super) fn all() -> Result<Vec<Tool>, ErrorData> {
    let plain = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_error_handling",
        "test_tool_with_progress",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_reconnection",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
    ];
    let tool = |name: &str, schema: Value| {
        typed(json!({"name": name, "description": "A fixture", "inputSchema": schema}))
    };
    let one = |property: &str| json!({"type": "object", "properties": {property: {"type": "string"}}, "required": [property]});
    plain
        .iter()
        .map(|name| tool(name, json!({"type": "object", "properties": {}})))
        .chain([
            tool("test_sampling", one("prompt")),
            tool("test_elicitation", one("message")),
            tool(SCHEMA_TOOL, schema()),
            tool(
                "test_custom_header",
                json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}),
            ),
        ])
        .collect()
}

/// A schema with everything in it that a careless server might drop.
fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
    })
}

pub(super) async fn call(
    request: CallToolRequestParams,
    context: &Context,
) -> Result<CallToolResult, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name)?.as_str());
        value.unwrap_or_default().to_owned()
    };
    let text = |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]));
    match request.name.as_ref() {
        "test_simple_text" => text("This is a simple text response for testing.".to_owned()),
        "test_image_content" => content(json!([image()])),
        "test_audio_content" => content(json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])),
        "test_embedded_resource" => content(json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain",
            "text": "This is an embedded resource content."
        }}])),
        "test_multiple_content_types" => content(json!([
            {"type": "text", "text": "Multiple content types test:"},
            image(),
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": "{\"test\":\"data\",\"value\":123}"
            }}
        ])),
        "test_tool_with_logging" | "test_logging_tool" => logging(context).await,
        "test_error_handling" => Ok(CallToolResult::error(vec![ContentBlock::text(
            "This tool intentionally returns an error for testing",
        )])),
        "test_tool_with_progress" => progress(context).await,
        "test_sampling" => sampling(context, &argument("prompt")).await,
        "test_elicitation" => elicitation(context, &argument("message")).await,
        "test_elicitation_sep1034_defaults" => elicit(context, "Please review", defaults()).await,
        "test_elicitation_sep1330_enums" => elicit(context, "Please choose", enums()).await,
        "test_missing_capability" => {
            let needed = ClientCapabilities::builder().enable_sampling().build();
            match context.client_capabilities().is_some_and(|capabilities| capabilities.sampling.is_some()) {
                true => text("the client can sample".to_owned()),
                false => Err(ErrorData::missing_required_client_capability(needed)),
            }
        }
        "test_reconnection" => {
            tokio::time::sleep(STEP * 2).await;
            text("Reconnection test completed".to_owned())
        }
        "test_custom_header" => text(argument("region")),
        super::tools::SCHEMA_TOOL => text("the schema is the point".to_owned()),
        other => Ok(CallToolResult::error(vec![ContentBlock::text(format!("unknown fixture {other}"))])),
    }
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn content(content: Value) -> Result<CallToolResult, ErrorData> {
    complete(json!({"content": content, "isError": false}))
}

async fn logging(context: &Context) -> Result<CallToolResult, ErrorData> {
    // Without a session there is no level set once for all: only requests that name one get messages.
    let wanted = !super::stateless(context) || context.meta.log_level().is_some();
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            let _ = context.peer.notify_logging_message(message).await;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(CallToolResult::success(vec![ContentBlock::text("Logged three lines")]))
}

async fn progress(context: &Context) -> Result<CallToolResult, ErrorData> {
    let token = context.meta.get_progress_token();
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = &token {
            let update = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
            let _ = context.peer.notify_progress(update).await;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(CallToolResult::success(vec![ContentBlock::text("Progressed to the end")]))
}

async fn ask(context: &Context, request: Value) -> Result<Value, ErrorData> {
    let request: ServerRequest = typed(request)?;
    let answer = context.peer.send_request(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

async fn sampling(context: &Context, prompt: &str) -> Result<CallToolResult, ErrorData> {
    let answer = ask(
        context,
        json!({"method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": prompt}}], "maxTokens": 100
        }}),
    )
    .await?;
    let said = answer["content"]["text"].as_str().unwrap_or_default();
    Ok(CallToolResult::success(vec![ContentBlock::text(format!("LLM response: {said}"))]))
}

async fn elicitation(context: &Context, message: &str) -> Result<CallToolResult, ErrorData> {
    let property = |about: &str| json!({"type": "string", "description": about});
    let schema = json!({
        "type": "object",
        "properties": {"username": property("User's response"), "email": property("User's email address")},
        "required": ["username", "email"]
    });
    elicit(context, message, schema).await
}

async fn elicit(context: &Context, message: &str, schema: Value) -> Result<CallToolResult, ErrorData> {
    let request = json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": message, "requestedSchema": schema
    }});
    let answer = ask(context, request).await?;
    let text = format!(
        "Elicitation completed: action={}, content={}",
        answer["action"].as_str().unwrap_or_default(),
        answer["content"]
    );
    Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
}

fn defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true}
    }})
}

fn enums() -> Value {
    let titled = |word: &str| {
        let choice = |value: &str, nth: &str| json!({"const": value, "title": format!("{nth} {word}")});
        json!([choice("value1", "First"), choice("value2", "Second"), choice("value3", "Third")])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                       "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}
    }})
}
