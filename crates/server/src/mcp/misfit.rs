//! Requests whose method is known and whose parameters are not what it takes.
//!
//! The SDK hands them over as if nobody knew the method. A client that is told so looks for the mistake in the wrong
//! place.

use super::unread;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header::CONTENT_TYPE};
use rmcp::{
    ErrorData,
    model::{
        CallToolRequestMethod, CallToolRequestParams, ConstString, CustomRequest, ErrorCode, JsonRpcError,
        ListToolsRequestMethod, PaginatedRequestParams, RequestId,
    },
};
use scrub::Scrubber;
use serde::Deserialize as _;
use serde_json::Value;

/// More of a method's name than this helps nobody.
const LONGEST_NAME: usize = 100;

/// What is wrong with a request that nothing answers.
pub(super) fn error(request: &CustomRequest, scrubber: &Scrubber) -> ErrorData {
    let why = match request.method.as_str() {
        CallToolRequestMethod::VALUE => call(request),
        ListToolsRequestMethod::VALUE => unreadable::<PaginatedRequestParams>(request),
        method => {
            // The caller's text: it leaves as any other.
            let clean = scrubber.scrub(method);
            let name: String = clean.chars().take(LONGEST_NAME).collect();
            let why =
                format!("unknown method \"{name}\"; tools/list tells what can be called with tools/call");
            return ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None);
        }
    };
    ErrorData::invalid_params(format!("{}: {why}", request.method), None)
}

/// What to answer to a text that the SDK cannot read at all, and whose it is. A notification is never answered.
pub(super) fn answer(text: &[u8]) -> Option<(ErrorData, Option<RequestId>)> {
    match serde_json::from_slice(text) {
        Ok(message) => no_message(&message),
        Err(error) => Some(unread::answer(text, &error)),
    }
}

/// The same over HTTP.
pub(super) fn response(text: &[u8]) -> Option<Response> {
    let (error, id) = answer(text)?;
    let body = serde_json::to_string(&JsonRpcError::new(id, error)).ok()?;
    Some((StatusCode::BAD_REQUEST, [(CONTENT_TYPE, "application/json")], body).into_response())
}

fn no_message(message: &Value) -> Option<(ErrorData, Option<RequestId>)> {
    let id = message.get("id").and_then(|id| RequestId::deserialize(id).ok());
    let method = message.get("method").and_then(Value::as_str);
    if method.is_some() && message.get("id").is_none() {
        return None;
    }
    let params = message.get("params");
    let error = match (method, params) {
        (Some(_), Some(params)) if !params.is_object() && id.is_some() => {
            ErrorData::invalid_params(format!("`params` must be an object, got {}", kind(Some(params))), None)
        }
        _ if message.is_array() => {
            ErrorData::invalid_request("this protocol has no batches; send the messages one by one", None)
        }
        _ => {
            let why = "this is no message of JSON-RPC 2.0: an object with `jsonrpc`, `method` and, to be answered, `id`";
            ErrorData::invalid_request(why, None)
        }
    };
    Some((error, id))
}

fn call(request: &CustomRequest) -> String {
    let Some(Value::Object(params)) = &request.params else {
        return format!(
            "`params` must be an object with `name` and `arguments`, got {}",
            kind(request.params.as_ref())
        );
    };
    let name = params.get("name");
    if !matches!(name, Some(Value::String(_))) {
        return format!(
            "`name` must be a string, the name of a tool as `tools/list` gives it, got {}",
            kind(name)
        );
    }
    let arguments = params.get("arguments");
    if !matches!(arguments, None | Some(Value::Null | Value::Object(_))) {
        return format!(
            "`arguments` must be an object, as the tool's `inputSchema` describes it, got {}",
            kind(arguments)
        );
    }
    unreadable::<CallToolRequestParams>(request)
}

fn unreadable<T: serde::de::DeserializeOwned>(request: &CustomRequest) -> String {
    let params = request.params.clone().unwrap_or_default();
    let fits = serde_json::from_value::<T>(params).is_ok();
    let part = if fits { "the request" } else { "`params`" };
    format!("{part} does not hold what the protocol's schema asks for")
}

/// What kind of value it is: the value itself may be a secret, and this way out is not scrubbed.
fn kind(value: Option<&Value>) -> &'static str {
    match value {
        None => "nothing",
        Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "true or false",
        Some(Value::Number(_)) => "a number",
        Some(Value::String(_)) => "a string",
        Some(Value::Array(_)) => "a list",
        Some(Value::Object(_)) => "an object",
    }
}
