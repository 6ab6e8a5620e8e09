//! What a server says: answers, questions of its own, and what it tells on the way.

use super::{Error, Inner, Published, Work, lock};
use crate::{Kind, codec, types::diagnostics, uri::to_uri};
use serde_json::{Value, json};
use std::sync::Weak;
use tokio::io::{AsyncRead, BufReader};

pub(super) async fn read_all(client: Weak<Inner>, from: impl AsyncRead + Unpin) {
    let mut from = BufReader::with_capacity(64 << 10, from);
    loop {
        let message = codec::read(&mut from).await;
        let Some(inner) = client.upgrade() else { return };
        match message {
            Ok(Some(message)) => match serde_json::from_slice(&message) {
                Ok(message) => inner.take(message),
                Err(error) => tracing::debug!("a language server sent no JSON: {error}"),
            },
            ended => {
                if let Err(error) = ended {
                    tracing::debug!("reading from a language server: {error}");
                }
                lock(&inner.state).end();
                inner.news.send_modify(|news| *news += 1);
                return;
            }
        }
    }
}

impl Inner {
    pub(super) fn send(&self, message: &Value) {
        // A server that has gone is noticed by the reader.
        let _ = self.out.send(codec::frame(message.to_string().as_bytes()));
    }

    fn take(&self, mut message: Value) {
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let id = message.get("id").cloned();
        match (method, id) {
            (Some(method), Some(id)) => {
                let params = message.get("params").unwrap_or(&Value::Null);
                let answer = match self.answer(&method, params) {
                    Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    None => {
                        let error = json!({"code": -32601, "message": format!("{method}: not offered")});
                        json!({"jsonrpc": "2.0", "id": id, "error": error})
                    }
                };
                self.send(&answer);
                // It may offer more than before.
                self.news.send_modify(|news| *news += 1);
            }
            (Some(method), None) => {
                self.note(&method, message.get("params").unwrap_or(&Value::Null));
                self.news.send_modify(|news| *news += 1);
            }
            (None, id) => {
                let waiting =
                    id.and_then(|id| id.as_i64()).and_then(|id| lock(&self.state).pending.remove(&id));
                let Some(waiting) = waiting else { return };
                let answer = match message.get("error") {
                    Some(error) => Err(Error::Refused {
                        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
                        message: error.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
                    }),
                    None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
                };
                let _ = waiting.send(answer);
            }
        }
    }

    /// What a server asks of a client; `None` for what this one does not do.
    fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        Some(match method {
            "workspace/configuration" => {
                let items = params.get("items").and_then(Value::as_array).map(Vec::as_slice);
                items.unwrap_or_default().iter().map(|item| self.configuration(item)).collect()
            }
            "workspace/workspaceFolders" => {
                json!([{"uri": to_uri(&self.hello.root), "name": "workspace"}])
            }
            // Only our own tools write.
            "workspace/applyEdit" => json!({"applied": false}),
            "window/showDocument" => json!({"success": false}),
            "client/registerCapability" => {
                let all = params.get("registrations").and_then(Value::as_array).map(Vec::as_slice);
                let methods = all.unwrap_or_default().iter().filter_map(|one| one.get("method")?.as_str());
                let mut state = lock(&self.state);
                // The one that matters: who offers it this way offers nothing at the beginning.
                if methods.into_iter().any(|method| method == "textDocument/diagnostic") {
                    state.registered.insert("diagnosticProvider".to_owned());
                }
                Value::Null
            }
            "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "window/showMessageRequest"
            | "workspace/diagnostic/refresh"
            | "workspace/semanticTokens/refresh"
            | "workspace/inlayHint/refresh"
            | "workspace/codeLens/refresh" => Value::Null,
            _ => return None,
        })
    }

    /// A section of the configuration: that of the options, or all of them where a server's section is its own.
    fn configuration(&self, item: &Value) -> Value {
        let section = item.get("section").and_then(Value::as_str).unwrap_or_default();
        let options = &self.hello.options;
        let named = section.split('.').try_fold(options, |value, name| value.get(name));
        match (named, self.hello.kind) {
            (Some(named), _) => named.clone(),
            (None, Kind::Pyright | Kind::Other) => Value::Null,
            (None, _) => options.clone(),
        }
    }

    fn note(&self, method: &str, params: &Value) {
        let text = |value: &Value, name: &str| {
            value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut state = lock(&self.state);
        match method {
            "$/progress" => {
                let (Some(token), Some(value)) = (params.get("token"), params.get("value")) else { return };
                let token = token.to_string();
                match value.get("kind").and_then(Value::as_str) {
                    Some("begin") => {
                        let work = Work { title: text(value, "title"), message: text(value, "message") };
                        state.works.insert(token, work);
                    }
                    Some("report") => {
                        if let Some(work) = state.works.get_mut(&token) {
                            work.message = text(value, "message");
                        }
                    }
                    _ => {
                        state.works.remove(&token);
                        state.loads += 1;
                    }
                }
            }
            "experimental/serverStatus" => {
                state.quiescent = params.get("quiescent").and_then(Value::as_bool);
                state.rested |= state.quiescent == Some(true);
                let bad = params.get("health").and_then(Value::as_str).is_some_and(|health| health != "ok");
                state.trouble = bad.then(|| text(params, "message")).filter(|why| !why.is_empty());
            }
            "textDocument/publishDiagnostics" => {
                let version = params.get("version").and_then(Value::as_i64);
                state
                    .published
                    .insert(text(params, "uri"), Published { version, found: diagnostics(params) });
            }
            "window/logMessage" => {
                let said = text(params, "message");
                // pyright counts them each time it has looked.
                if said.contains("source file") && (said.contains("Found ") || said.starts_with("No ")) {
                    state.scans += 1;
                }
                // typescript-language-server stays when a signal ended the one behind it, and answers everything with
                // nothing. It says so, as an error, which it always tells, before it answers what was asked.
                if self.hello.kind == Kind::TypeScript && said.contains("[tsserver] Exited") {
                    state.end();
                }
                tracing::debug!("language server: {said}");
            }
            _ => {}
        }
    }
}
