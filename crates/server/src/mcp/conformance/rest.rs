//! Fixture prompts and resources.

use super::{PNG, complete, rounds};
use rmcp::{
    ErrorData,
    model::{
        ErrorCode, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ReadResourceResponse,
        ReadResourceResult,
    },
};
use serde_json::{Value, json};

pub(super) fn prompts() -> Value {
    let argument = |name: &str, about: &str| json!({"name": name, "description": about, "required": true});
    json!({"prompts": [
        {"name": "test_simple_prompt", "description": "A prompt without arguments"},
        {"name": "test_prompt_with_arguments", "description": "A prompt with arguments",
         "arguments": [argument("arg1", "First test argument"), argument("arg2", "Second test argument")]},
        {"name": "test_prompt_with_embedded_resource", "description": "A prompt with a resource in it",
         "arguments": [argument("resourceUri", "URI of the resource to embed")]},
        {"name": "test_prompt_with_image", "description": "A prompt with a picture"},
        {"name": "test_input_required_result_prompt", "description": "A prompt that asks back"},
    ]})
}

pub(super) fn prompt(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
        value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default()
    };
    let said = |content: Value| json!({"role": "user", "content": content});
    let text = |text: &str| said(json!({"type": "text", "text": text}));
    let messages = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![text(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))],
        "test_prompt_with_embedded_resource" => vec![
            said(json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing."
            }})),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            said(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => match rounds::prompt(request.input_responses.as_ref())? {
            Ok(context) => vec![text(&format!("The context is: {context}"))],
            Err(asked) => return Ok(asked.into()),
        },
        other => return Err(ErrorData::invalid_params(format!("unknown prompt {other}"), None)),
    };
    let result: GetPromptResult = complete(json!({"messages": messages}))?;
    Ok(result.into())
}

pub(super) fn resources() -> Value {
    let resource = |name: &str, mime: &str| json!({"uri": format!("test://{name}"), "name": name, "description": "A fixture", "mimeType": mime});
    json!({"resources": [resource("static-text", "text/plain"), resource("static-binary", "image/png"),
                         resource("watched-resource", "text/plain")]})
}

pub(super) fn templates() -> Value {
    json!({"resourceTemplates": [{
        "uriTemplate": "test://template/{id}/data", "name": "template",
        "description": "A fixture", "mimeType": "application/json"
    }]})
}

pub(super) fn resource(uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    let content = match (uri, id) {
        ("test://static-text", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "This is the content of the static text resource."})
        }
        ("test://watched-resource", _) => json!({"uri": uri, "mimeType": "text/plain", "text": "Watched."}),
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        (_, Some(id)) => {
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
            json!({"uri": uri, "mimeType": "application/json", "text": text})
        }
        _ => {
            let data = Some(json!({"uri": uri}));
            return Err(ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, "Resource not found", data));
        }
    };
    let result: ReadResourceResult = complete(json!({"contents": [content]}))?;
    Ok(result.into())
}
