//! Mode `docker_exec`: into a running container; podman takes the same words.

use super::{Carried, Carrier, config::Block};
use crate::{Factory, FactoryError, Sandbox};
use serde_json::{Map, Value};
use std::sync::Arc;

struct Container {
    container: String,
    user: Option<String>,
    workdir: Option<String>,
    extra_args: Vec<String>,
    docker_path: String,
}

impl Carrier for Container {
    fn prefix(&self, terminal: bool) -> Vec<String> {
        let mut argv =
            vec![self.docker_path.clone(), "exec".to_owned(), if terminal { "-it" } else { "-i" }.to_owned()];
        if let Some(user) = &self.user {
            argv.extend(["--user".to_owned(), user.clone()]);
        }
        argv.extend(self.extra_args.iter().cloned());
        argv.push(self.container.clone());
        argv
    }

    fn place(&self) -> String {
        format!("container {}", self.container)
    }

    fn workdir(&self) -> Option<&str> {
        self.workdir.as_deref()
    }
}

const EXEC_KEYS: [&str; 5] = ["container", "user", "workdir", "extra_args", "docker_path"];

/// Builds sandboxes of mode `docker_exec`.
pub(crate) fn exec_factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        let block = Block::new(config, &EXEC_KEYS)?;
        let carrier = Container {
            container: block.needed("container")?,
            user: block.text("user")?,
            workdir: block.text("workdir")?,
            extra_args: block.texts("extra_args")?,
            docker_path: docker_path(&block)?,
        };
        Ok(Arc::new(Carried::new(name, Arc::new(carrier))))
    })
}

/// The client.
pub(super) fn docker_path(block: &Block<'_>) -> Result<String, FactoryError> {
    Ok(block.text("docker_path")?.unwrap_or_else(|| "docker".to_owned()))
}
