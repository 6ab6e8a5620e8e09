//! Between the pipeline's types and the protocol's.

use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use std::sync::Arc;
use tools::{Class, Content, Listed, Reply};

/// A tool as clients see it.
pub(crate) fn tool(listed: &Listed) -> Tool {
    let spec = listed.spec;
    let mut tool = Tool::new(spec.name, spec.description, Arc::new(listed.input_schema.clone()));
    tool.output_schema = listed.output_schema.clone().map(Arc::new);
    let read = spec.class == Class::Read;
    tool.annotations = Some(
        ToolAnnotations::new()
            .read_only(read)
            .destructive(spec.destructive)
            .idempotent(spec.idempotent)
            .open_world(spec.open_world),
    );
    tool
}

/// A finished call as clients see it.
pub(super) fn result(reply: Reply) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = reply.content.into_iter().map(content).collect();
    result.structured_content = reply.structured;
    result.is_error = Some(reply.is_error);
    result
}

fn content(content: Content) -> ContentBlock {
    match content {
        Content::Text(text) => ContentBlock::text(text),
        Content::Image { data, mime } => ContentBlock::image(STANDARD.encode(data), mime),
    }
}
