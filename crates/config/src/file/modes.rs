//! What each mode of a sandbox takes, for editors. Whoever builds the sandboxes has the last word.

use serde_json::{Map, Value, json};

/// What may stand after a key. Any of them may also come out of a variable.
enum Kind {
    Text,
    Texts,
    /// A number with a unit, or a bare one.
    Amount,
    Number,
    OneOf(&'static [&'static str]),
}

/// A key, what may stand after it, and what it says.
type Key = (&'static str, Kind, &'static str);

struct Mode {
    name: &'static str,
    about: &'static str,
    needed: &'static [&'static str],
    keys: Vec<Key>,
}

fn modes() -> Vec<Mode> {
    use Kind::{Amount, Number, OneOf, Text, Texts};
    let docker_path = || ("docker_path", Text, "The engine's client: docker, podman or a path.");
    let extra_args = |client| ("extra_args", Texts, client);
    let workdir = || ("workdir", Text, "The absolute path at which it has the workspace.");
    vec![
        Mode { name: "direct", about: "As this user, without isolation.", needed: &[], keys: Vec::new() },
        Mode {
            name: "isolated",
            about: "Under the strongest isolation that this host offers.",
            needed: &[],
            keys: vec![
                ("read", Texts, "Paths that would be hidden and are not."),
                ("write", Texts, "Further paths that commands may write; they must exist."),
                ("env", Texts, "Variables that are passed on although they look like secrets."),
                ("network", OneOf(&["host", "loopback", "none"]), "What commands reach; host when absent."),
                ("memory", Amount, "Memory of a command and its descendants, such as 2GiB."),
                ("file_size", Amount, "Bytes in one file, such as 500MB."),
                ("cpu", Amount, "Processor time of a command and all below it together, such as 90s."),
                ("pids", Number, "Processes of a command; 4096 when absent."),
                ("require", Texts, "Guarantees without which nothing starts."),
            ],
        },
        Mode {
            name: "docker_run",
            about: "In a fresh container for every command.",
            needed: &["image"],
            keys: vec![
                ("image", Text, "The image."),
                ("network", Text, "As in docker run --network."),
                ("mounts", Texts, "host:container[:options], as in docker run --volume."),
                workdir(),
                extra_args("Further arguments of docker run."),
                docker_path(),
            ],
        },
        Mode {
            name: "docker_exec",
            about: "In a container that runs.",
            needed: &["container"],
            keys: vec![
                ("container", Text, "Its name or id."),
                ("user", Text, "As in docker exec --user."),
                workdir(),
                extra_args("Further arguments of docker exec."),
                docker_path(),
            ],
        },
        Mode {
            name: "kubectl_exec",
            about: "In a pod.",
            needed: &["pod"],
            keys: vec![
                ("pod", Text, "Its name."),
                ("namespace", Text, "The namespace it is in."),
                ("container", Text, "Which of its containers."),
                ("kubeconfig", Text, "The file with the cluster's address."),
                ("context", Text, "Which context of that file."),
                workdir(),
                extra_args("Further arguments of kubectl exec."),
                ("kubectl_path", Text, "The client: kubectl or a path."),
            ],
        },
        Mode {
            name: "remote",
            about: "On another machine that serves with --allow-remote-exec.",
            needed: &["url"],
            keys: vec![
                ("url", Text, "http:// or https://, host and port."),
                ("token_file", Text, "A file with the bearer token."),
                ("ca_file", Text, "Certificates to trust, for https://."),
                workdir(),
            ],
        },
    ]
}

/// The schema of a sandbox: one of the modes with its own keys, or a mode that this build adds.
pub(super) fn schema() -> Map<String, Value> {
    let modes = modes();
    let names: Vec<&str> = modes.iter().map(|mode| mode.name).collect();
    let other = json!({
        "title": "another mode",
        "description": "One that this build adds, with keys of its own.",
        "type": "object",
        "properties": {"mode": {"type": "string", "not": {"enum": names}}},
        "required": ["mode"],
    });
    let choices: Vec<Value> = modes.iter().map(Mode::schema).chain([other]).collect();
    Map::from_iter([("oneOf".to_owned(), Value::Array(choices))])
}

impl Mode {
    fn schema(&self) -> Value {
        let mut properties = Map::from_iter([("mode".to_owned(), json!({"const": self.name}))]);
        for (key, kind, about) in &self.keys {
            let mut value = kind.schema();
            value.insert("description".to_owned(), json!(about));
            properties.insert((*key).to_owned(), Value::Object(value));
        }
        let required: Vec<&str> = ["mode"].iter().chain(self.needed).copied().collect();
        json!({
            "title": self.name,
            "description": self.about,
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }
}

impl Kind {
    fn schema(&self) -> Map<String, Value> {
        let schema = match self {
            Self::Text => json!({"type": "string"}),
            Self::Texts => json!({"type": "array", "items": {"type": "string"}}),
            Self::Amount => json!({"type": ["string", "integer"]}),
            Self::Number => json!({"type": "integer", "minimum": 1}),
            Self::OneOf(words) => {
                json!({"anyOf": [{"enum": words}, {"type": "string", "pattern": "\\$\\{"}]})
            }
        };
        schema.as_object().cloned().unwrap_or_default()
    }
}
