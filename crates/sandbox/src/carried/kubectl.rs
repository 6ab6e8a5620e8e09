//! Mode `kubectl_exec`: into a running pod.

use super::{Carried, Carrier, config::Block};
use crate::{Factory, FactoryError, Sandbox};
use serde_json::{Map, Value};
use std::sync::Arc;

struct Pod {
    pod: String,
    namespace: Option<String>,
    container: Option<String>,
    kubeconfig: Option<String>,
    context: Option<String>,
    extra_args: Vec<String>,
    kubectl_path: String,
    workdir: Option<String>,
}

impl Carrier for Pod {
    fn prefix(&self, terminal: bool) -> Vec<String> {
        let mut argv = vec![self.kubectl_path.clone()];
        argv.extend(self.kubeconfig.iter().map(|path| format!("--kubeconfig={path}")));
        argv.extend(self.context.iter().map(|name| format!("--context={name}")));
        // Its own remarks would stand in the program's stderr.
        argv.extend(["exec", "--quiet", if terminal { "-it" } else { "-i" }].map(str::to_owned));
        if let Some(namespace) = &self.namespace {
            argv.extend(["-n".to_owned(), namespace.clone()]);
        }
        if let Some(container) = &self.container {
            argv.extend(["-c".to_owned(), container.clone()]);
        }
        argv.extend(self.extra_args.iter().cloned());
        argv.extend([self.pod.clone(), "--".to_owned()]);
        argv
    }

    fn place(&self) -> String {
        format!("pod {}", self.pod)
    }

    fn workdir(&self) -> Option<&str> {
        self.workdir.as_deref()
    }
}

const KEYS: [&str; 8] =
    ["pod", "namespace", "container", "kubeconfig", "context", "extra_args", "kubectl_path", "workdir"];

/// Builds sandboxes of mode `kubectl_exec`.
pub(crate) fn factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        let block = Block::new(config, &KEYS)?;
        let carrier = Pod {
            pod: block.needed("pod")?,
            namespace: block.text("namespace")?,
            container: block.text("container")?,
            kubeconfig: block.text("kubeconfig")?,
            context: block.text("context")?,
            extra_args: block.texts("extra_args")?,
            kubectl_path: block.text("kubectl_path")?.unwrap_or_else(|| "kubectl".to_owned()),
            workdir: block.text("workdir")?,
        };
        Ok(Arc::new(Carried::new(name, Arc::new(carrier))))
    })
}
