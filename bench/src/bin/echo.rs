//! The floor: the bare MCP SDK over the same kind of pipes, answering every call with as many bytes as the first
//! argument says. No pipeline, no files.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt, transport::stdio_pipes};

#[derive(Clone)]
struct Echo(Arc<str>);

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text(self.0.to_string())]).into())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The text itself comes in, so that its escapes cost what the product's do.
    let path = std::env::args().nth(1).unwrap_or_default();
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    Echo(text.into()).serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
