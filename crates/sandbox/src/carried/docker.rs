//! Modes `docker_exec` and `docker_run`; podman takes the same words.

use super::{Carried, Carrier, Mark, config::Block, hidden_words, leftovers};
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
    fn prefix(&self, _: &Mark, terminal: bool, hidden: usize) -> Vec<String> {
        let mut argv =
            vec![self.docker_path.clone(), "exec".to_owned(), if terminal { "-it" } else { "-i" }.to_owned()];
        if let Some(user) = &self.user {
            argv.extend(["--user".to_owned(), user.clone()]);
        }
        argv.extend(hidden_words(hidden));
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

fn docker_path(block: &Block<'_>) -> Result<String, FactoryError> {
    Ok(block.text("docker_path")?.unwrap_or_else(|| "docker".to_owned()))
}

/// A fresh container for every call, named by the call's mark.
struct Image {
    image: String,
    network: Option<String>,
    mounts: Vec<String>,
    workdir: Option<String>,
    extra_args: Vec<String>,
    docker_path: String,
}

/// Labels that bear the marks of the call and of the sandbox, by which leftovers are found.
const CALL: &str = "codegen-sandbox.call";
const SANDBOX: &str = "codegen-sandbox.sandbox";

/// Removes containers with a label. One that the engine is only just making appears a moment later.
const REMOVE: &str = r#"for again in 1 2; do
  for id in $("$1" ps -aq --filter "label=$2"); do "$1" rm -f "$id"; done
  [ $again = 2 ] || sleep 0.4
done >/dev/null"#;

impl Carrier for Image {
    fn prefix(&self, mark: &Mark, terminal: bool, hidden: usize) -> Vec<String> {
        let mut argv = vec![self.docker_path.clone()];
        argv.extend(["run", "--rm", if terminal { "-it" } else { "-i" }].map(str::to_owned));
        argv.extend(["--label".to_owned(), format!("{CALL}={mark}")]);
        argv.extend(["--label".to_owned(), format!("{SANDBOX}={}", mark.sandbox)]);
        if let Some(server) = leftovers::label() {
            argv.extend(["--label".to_owned(), server]);
        }
        if let Some(network) = &self.network {
            argv.extend(["--network".to_owned(), network.clone()]);
        }
        for mount in &self.mounts {
            argv.extend(["-v".to_owned(), mount.clone()]);
        }
        argv.extend(hidden_words(hidden));
        argv.extend(self.extra_args.iter().cloned());
        argv.push(self.image.clone());
        argv
    }

    fn ending(&self, mark: &Mark) -> Vec<String> {
        let label = match mark.call {
            Some(_) => format!("{CALL}={mark}"),
            None => format!("{SANDBOX}={}", mark.sandbox),
        };
        ["sh", "-c", REMOVE, "sh", &self.docker_path, &label].map(str::to_owned).to_vec()
    }

    fn lasts(&self) -> bool {
        false
    }

    fn clean_up(&self) {
        leftovers::remove(self.docker_path.clone());
    }

    fn place(&self) -> String {
        format!("image {}", self.image)
    }

    fn workdir(&self) -> Option<&str> {
        self.workdir.as_deref()
    }
}

const RUN_KEYS: [&str; 6] = ["image", "network", "mounts", "workdir", "extra_args", "docker_path"];

/// Builds sandboxes of mode `docker_run`.
pub(crate) fn run_factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        let block = Block::new(config, &RUN_KEYS)?;
        let carrier = Image {
            image: block.needed("image")?,
            network: block.text("network")?,
            mounts: block.texts("mounts")?,
            workdir: block.text("workdir")?,
            extra_args: block.texts("extra_args")?,
            docker_path: docker_path(&block)?,
        };
        Ok(Arc::new(Carried::new(name, Arc::new(carrier))))
    })
}
