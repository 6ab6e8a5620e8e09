//! Mode `docker_run`: a fresh container for every call; podman takes the same words.
//!
//! The first process of a container is its guard, whose stdin is the client's. The command follows by `docker exec`, so
//! that its own stdin, or a terminal, is not what tells the container that this process is gone.

use super::{Carried, Carrier, Mark, config::Block, docker::docker_path, leftovers, live::Sweep, scripts};
use crate::{
    Closer, Control, Factory, FactoryError, Outcome, Process, Request, Response, Sandbox, StartRequest,
    StreamingSandbox,
};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Labels that bear the marks of the container and of the sandbox, by which leftovers are found.
const ROOM: &str = "codegen-sandbox.call";
const SANDBOX: &str = "codegen-sandbox.sandbox";

/// Removes containers with a label, and says so when the engine could be asked for them: see [`Sweep`]. One that it is
/// only just making appears a moment later.
const REMOVE: &str = r#"for again in 1 2; do
  ids=$("$1" ps -aq --filter "label=$2") || exit
  for id in $ids; do "$1" rm -f "$id" >/dev/null; done
  [ $again = 2 ] || sleep 0.4
done
echo "$3""#;

/// How containers are made.
struct Image {
    image: String,
    network: Option<String>,
    mounts: Vec<String>,
    workdir: Option<String>,
    extra_args: Vec<String>,
    docker_path: String,
    /// Of the sandbox.
    mark: Mark,
}

impl Image {
    /// The words that remove what has a label.
    fn removal(&self, label: &str) -> Vec<String> {
        ["sh", "-c", REMOVE, "sh", &self.docker_path, label, scripts::SWEPT].map(str::to_owned).to_vec()
    }
}

/// One container.
struct Room {
    image: Arc<Image>,
    name: String,
}

impl Carrier for Room {
    fn prefix(&self, terminal: bool) -> Vec<String> {
        let stdin = if terminal { "-it" } else { "-i" };
        [&self.image.docker_path, "exec", stdin, &self.name].map(str::to_owned).to_vec()
    }

    fn guard(&self, _: &Mark) -> Vec<String> {
        let image = &self.image;
        let mut argv = [&image.docker_path, "run", "--rm", "-i"].map(str::to_owned).to_vec();
        argv.extend(["--label".to_owned(), format!("{ROOM}={}", self.name)]);
        argv.extend(["--label".to_owned(), format!("{SANDBOX}={}", image.mark)]);
        if let Some(server) = leftovers::label() {
            argv.extend(["--label".to_owned(), server]);
        }
        if let Some(network) = &image.network {
            argv.extend(["--network".to_owned(), network.clone()]);
        }
        for mount in &image.mounts {
            argv.extend(["-v".to_owned(), mount.clone()]);
        }
        argv.extend(image.extra_args.iter().cloned());
        // Of two that are given the last holds.
        argv.extend(["--name", &self.name, "--entrypoint", "sh", &image.image, "-c"].map(str::to_owned));
        argv.push(scripts::keeper());
        argv
    }

    /// The image may have to be fetched first.
    fn is_prompt(&self) -> bool {
        false
    }

    fn ending(&self, _: &Mark) -> Vec<String> {
        self.image.removal(&format!("{ROOM}={}", self.name))
    }

    fn place(&self) -> String {
        format!("image {}", self.image.image)
    }

    fn workdir(&self) -> Option<&str> {
        self.image.workdir.as_deref()
    }
}

/// A sandbox whose calls have a container each.
struct Rooms {
    name: String,
    image: Arc<Image>,
    used: AtomicBool,
}

impl Rooms {
    /// A container, not made yet, and what removes it.
    fn room(&self) -> (Carried, Sweep) {
        self.used.store(true, Ordering::Relaxed);
        let mark = Mark::fresh();
        let name = format!("codegen-sandbox-{}", mark.sandbox);
        let room = Carried::new(&self.name, Arc::new(Room { image: Arc::clone(&self.image), name }));
        let sweep = room.sweeper(&mark);
        (room, sweep)
    }

    async fn collect(&self, request: Request) -> Response {
        let (room, sweep) = self.room();
        let response = room.carry(request).await;
        leave(&room, sweep).await;
        response
    }

    async fn begin(&self, request: StartRequest) -> Result<Process, Outcome> {
        let (room, sweep) = self.room();
        match room.carry_live(request).await {
            Ok(process) => {
                // By now the process has one of its own.
                sweep.disarm();
                let Process { stdin, stdout, stderr, control } = process;
                Ok(Process { stdin, stdout, stderr, control: Box::new(Tenant { control, room }) })
            }
            Err(outcome) => {
                leave(&room, sweep).await;
                Err(outcome)
            }
        }
    }
}

/// Returns when the container is gone.
async fn leave(room: &Carried, sweep: Sweep) {
    if room.leave().await {
        sweep.disarm();
    } else {
        sweep.finish().await;
    }
}

impl Sandbox for Rooms {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.collect(request))
    }

    fn streaming(&self) -> Option<&dyn StreamingSandbox> {
        Some(self)
    }

    fn closer(&self) -> Option<&dyn Closer> {
        Some(self)
    }
}

impl StreamingSandbox for Rooms {
    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Process, Outcome>> {
        Box::pin(self.begin(request))
    }
}

impl Closer for Rooms {
    /// Removes every container, if there ever was one.
    fn close(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            if !self.used.load(Ordering::Relaxed) {
                return Ok(());
            }
            let removal = self.image.removal(&format!("{SANDBOX}={}", self.image.mark));
            super::done(super::sweep(&self.name, removal).run().await)
        })
    }
}

/// The handle of a live process, and the container that ends with it.
struct Tenant {
    control: Box<dyn Control>,
    room: Carried,
}

impl Control for Tenant {
    fn wait(&self) -> BoxFuture<'_, Outcome> {
        Box::pin(async {
            let outcome = self.control.wait().await;
            self.room.leave().await;
            outcome
        })
    }

    fn kill(&self) {
        self.control.kill();
    }

    fn resize(&self, cols: u16, rows: u16) {
        self.control.resize(cols, rows);
    }

    fn notes(&self) -> Vec<String> {
        self.control.notes()
    }
}

const KEYS: [&str; 6] = ["image", "network", "mounts", "workdir", "extra_args", "docker_path"];

/// Builds sandboxes of mode `docker_run`.
pub(crate) fn run_factory() -> Arc<dyn Factory> {
    Arc::new(|name: &str, config: &Map<String, Value>| -> Result<Arc<dyn Sandbox>, FactoryError> {
        let block = Block::new(config, &KEYS)?;
        let image = Image {
            image: block.needed("image")?,
            network: block.text("network")?,
            mounts: block.texts("mounts")?,
            workdir: block.text("workdir")?,
            extra_args: block.texts("extra_args")?,
            docker_path: docker_path(&block)?,
            mark: Mark::fresh(),
        };
        leftovers::remove(image.docker_path.clone());
        Ok(Arc::new(Rooms { name: name.to_owned(), image: Arc::new(image), used: AtomicBool::new(false) }))
    })
}
