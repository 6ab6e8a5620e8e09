//! Fixtures of the protocol's official conformance suite, behind the hidden `--conformance` flag.

use super::Handler;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, InitializeRequestParams, InitializeResult, ListToolsResult,
        PaginatedRequestParams, ServerConfig, Tool,
    },
    service::RequestContext,
};

/// The product's handler with fixtures beside its tools.
#[derive(Clone)]
pub(super) struct Conformance {
    product: Handler,
}

impl Conformance {
    pub(super) fn new(product: Handler) -> Self {
        Self { product }
    }
}

impl ServerHandler for Conformance {
    fn get_info(&self) -> ServerConfig {
        self.product.get_info()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.product.initialize(request, context).await
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.product.list_tools(request, context).await
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.product.get_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.product.call_tool(request, context).await
    }
}
