//! render_dot with the real Graphviz, render_mermaid with the real Mermaid and a browser.

use crate::support::{Bench, Client, Setup, until};
use config::{NamedRoot, Settings};
use sandbox::direct::Direct;
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Instant};
use tools::{Access, Catalog, Content, Host, PathMap, Place, Runtime};

const GRAPH: &str = "digraph { a -> b [label=\"to é\"]; b -> c }";

#[tokio::test]
async fn a_graph_becomes_a_picture() {
    let bench = Bench::new();
    let client = bench.client();
    for (path, begin) in [("a/graph.svg", &b"<?xml"[..]), ("graph.PNG", b"\x89PNG"), ("graph.pdf", b"%PDF")] {
        let text = client.ok("render_dot", json!({"source": GRAPH, "output_path": path})).await;
        let bytes = fs::read(bench.root().join(path)).unwrap();
        assert_eq!(text, format!("wrote {} bytes to {path}", bytes.len()));
        assert!(bytes.starts_with(begin), "{path}");
    }
}

#[tokio::test]
async fn it_is_shown_when_asked_for() {
    let bench = Bench::new();
    let client = bench.client();
    let args = json!({"source": GRAPH, "output_path": "g.png", "show": true});
    let reply = client.call("render_dot", args).await;
    let written = fs::read(bench.root().join("g.png")).unwrap();
    assert_eq!(reply.content[1], Content::Image { data: written, mime: "image/png" });
    // Models take no other kind, whatever is written.
    for path in ["g.pdf", "g.svg"] {
        let reply =
            client.call("render_dot", json!({"source": GRAPH, "output_path": path, "show": true})).await;
        let [_, Content::Image { data, mime: "image/png" }] = &reply.content[..] else { panic!("{reply:?}") };
        assert!(data.starts_with(b"\x89PNG"), "{path}");
        assert!(!fs::read(bench.root().join(path)).unwrap().starts_with(b"\x89PNG"), "{path}");
    }
}

#[tokio::test]
async fn bad_input_is_explained_and_writes_nothing() {
    let bench = Bench::new();
    let client = bench.client();
    let text = client.err("render_dot", json!({"source": "digraph { a -> }", "output_path": "g.svg"})).await;
    assert!(text.starts_with("render_dot: exit 1\n") && text.contains("syntax error in line 1"), "{text}");
    assert_eq!(
        client.err("render_dot", json!({"source": GRAPH, "output_path": "g.gif"})).await,
        "render_dot: `output_path` must end in .svg, .png or .pdf, got \"g.gif\""
    );
    assert_eq!(
        client.err("render_dot", json!({"source": " ", "output_path": "g.svg"})).await,
        "render_dot: `source` is empty; say what to draw"
    );
    assert_eq!(
        client.err("render_dot", json!({"source": "// later\n", "output_path": "g.svg"})).await,
        "render_dot: nothing was drawn; begin `source` with `digraph { a -> b }` or `graph { a -- b }`"
    );
    let huge = "a".repeat((1 << 20) + 1);
    assert_eq!(
        client.err("render_dot", json!({"source": huge, "output_path": "g.svg"})).await,
        "render_dot: `source` has 1048577 bytes, 1048576 are the most; draw less of it"
    );
    let outside = client.err("render_dot", json!({"source": GRAPH, "output_path": "../g.svg"})).await;
    assert!(outside.contains("../g.svg"), "{outside}");
    for path in ["g.svg", "g.png"] {
        let two = json!({"source": "digraph { a } graph { b }", "output_path": path});
        let text = client.err("render_dot", two).await;
        assert!(text.contains("holds 2 graphs") && text.contains("call once for each"), "{text}");
    }
    let nul = client.err("render_dot", json!({"source": "digraph { a\0 }", "output_path": "g.svg"})).await;
    assert!(nul.contains("a NUL character at byte 11"), "{nul}");
    for path in [".git/refs/heads/evil.svg", "sub/.GIT/x.svg"] {
        let text = client.err("render_dot", json!({"source": GRAPH, "output_path": path})).await;
        assert!(text.contains(".git, where git takes it for its own"), "{text}");
    }
    assert!(fs::read_dir(bench.root()).unwrap().next().is_none());
}

#[tokio::test]
async fn a_link_that_is_called_a_picture_does_not_lead_to_something_else() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write("src/main.rs", "fn main() {}\n");
    bench.write("real.svg", "<svg/>");
    for (link, target) in [("x.svg", "src/main.rs"), ("y.svg", "src/new.rs"), ("z.svg", "real.svg")] {
        std::os::unix::fs::symlink(target, bench.root().join(link)).unwrap();
    }
    for (path, target) in [("x.svg", "src/main.rs"), ("y.svg", "src/new.rs")] {
        let text = client.err("render_dot", json!({"source": GRAPH, "output_path": path})).await;
        assert!(text.contains(&format!("{path} leads to {target}, which is no .svg")), "{text}");
    }
    assert_eq!(fs::read_to_string(bench.root().join("src/main.rs")).unwrap(), "fn main() {}\n");
    let text = client.ok("render_dot", json!({"source": GRAPH, "output_path": "z.svg"})).await;
    assert!(text.ends_with(" bytes to real.svg"), "{text}");
}

#[tokio::test]
async fn undo_takes_back_a_picture_or_says_that_it_is_not_kept() {
    let bench = Bench::new();
    let client = bench.client();
    bench.write(".gitignore", "ign/\n");
    client.ok("Write", json!({"file_path": "w", "content": "w"})).await;
    client.ok("render_dot", json!({"source": GRAPH, "output_path": "g.svg"})).await;
    client.ok("render_dot", json!({"source": GRAPH, "output_path": "ign/x.svg"})).await;
    let text = client.call("undo", json!({})).await.all_text();
    assert!(text.contains("NOT undone") && text.contains("ign/x.svg"), "{text}");
    assert!(bench.root().join("w").exists() && bench.root().join("ign/x.svg").exists());
    let text = client.ok("undo", json!({})).await;
    assert!(text.starts_with("undid render_dot: g.svg (1 file(s) changed)"), "{text}");
    assert!(bench.root().join("w").exists() && !bench.root().join("g.svg").exists());
    assert!(client.ok("undo", json!({})).await.starts_with("undid Write: w"));
}

#[tokio::test]
async fn files_named_in_a_graph_are_not_opened() {
    let bench = Bench::new();
    let client = bench.client();
    let outside = bench.dir.path().join("outside.png");
    client.ok("render_dot", json!({"source": GRAPH, "output_path": "in.png"})).await;
    fs::rename(bench.root().join("in.png"), &outside).unwrap();
    for source in [
        format!("digraph {{ a [image=\"{}\"] }}", outside.display()),
        format!("digraph {{ a [\"image\" = \"{}\"] }}", outside.display()),
        format!(
            "digraph {{ a [label=<<table><tr><td><img src=\"{}\"/></td></tr></table>>] }}",
            outside.display()
        ),
        format!("digraph {{ a [shape=box shapefile=\"{}\"] }}", outside.display()),
        format!("digraph {{ a [\"im\"+\"age\"=\"{}\"] }}", outside.display()),
        "digraph { stylesheet=\"http://evil/x.css\" a }".to_owned(),
    ] {
        let text = client.err("render_dot", json!({"source": source, "output_path": "g.svg"})).await;
        assert!(text.contains("refers to a file, which is not opened"), "{text}");
    }
    let label = "digraph { a [label=\"docker image = nginx\"] }";
    client.ok("render_dot", json!({"source": label, "output_path": "g.svg"})).await;
    let drawn = fs::read_to_string(bench.root().join("g.svg")).unwrap();
    assert!(drawn.contains("docker image = nginx"), "{drawn}");
}

#[tokio::test]
async fn an_endless_drawing_is_ended() {
    let bench = Bench::new();
    let mut graph = "digraph { ".to_owned();
    for n in 0..3000 {
        graph += &format!("n{} -> n{}; n{n} -> n{};", n % 700, (n * 7 + 3) % 700, (n * 13) % 3000);
    }
    graph += "}";
    let begin = Instant::now();
    let args = json!({"source": graph, "output_path": "g.svg", "timeout": 1});
    let text = bench.client().err("render_dot", args).await;
    assert!(begin.elapsed().as_secs() < 30);
    assert!(text.starts_with("render_dot: timed out after 1s; nothing was written"), "{text}");
    assert!(!bench.root().join("g.svg").exists());
}

/// One node can ask for a picture that takes more memory than many machines have.
#[tokio::test]
async fn a_huge_picture_is_refused_at_once() {
    let bench = Bench::new();
    let client = bench.client();
    for source in
        ["digraph { a [width=100000 height=100000] }", "digraph { dpi=1000000 a [width=1000 height=1000] }"]
    {
        let text = client.err("render_dot", json!({"source": source, "output_path": "g.png"})).await;
        assert!(text.starts_with("render_dot: ") && text.contains("out of memory"), "{text}");
        assert!(!text.contains("timed out"), "{text}");
        assert!(!bench.root().join("g.png").exists());
    }
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let mut setup = Setup::default();
    setup.settings.environment = vec![("PATH".to_owned(), "/nowhere".to_owned())];
    let bench = setup.bench();
    assert_eq!(
        bench.client().err("render_dot", json!({"source": GRAPH, "output_path": "g.svg"})).await,
        "render_dot needs the program `dot` of Graphviz, which is not installed\nthe package is called graphviz"
    );
}

/// A workspace whose project has Mermaid among its packages.
fn with_mermaid() -> Bench {
    let bench = Bench::new();
    testkit::tools::path("chromium");
    let modules = testkit::tools::path("mmdc").parent().unwrap().parent().unwrap().join("node_modules");
    std::os::unix::fs::symlink(modules, bench.root().join("node_modules")).unwrap();
    bench
}

#[tokio::test]
async fn a_diagram_becomes_a_picture_and_a_mistake_is_explained() {
    let bench = with_mermaid();
    let client = bench.client();
    let source = "graph TD\n  A[Start] --> B{ok?}\n";
    let args = json!({"source": source, "output_path": "d.svg", "show": true});
    let reply = client.call("render_mermaid", args).await;
    assert!(!reply.is_error, "{}", reply.all_text());
    let written = fs::read(bench.root().join("d.svg")).unwrap();
    let text = String::from_utf8_lossy(&written);
    assert!(text.starts_with("<svg") && text.contains("Start"), "{text}");
    let [_, Content::Image { data, mime: "image/png" }] = &reply.content[..] else { panic!("{reply:?}") };
    assert!(data.starts_with(b"\x89PNG"));
    let wrong = json!({"source": "graph TD\n  A[Start --> \n", "output_path": "w.png"});
    let text = client.err("render_mermaid", wrong).await;
    assert!(text.contains("Parse error on line") && !text.contains("    at "), "{text}");
    assert!(!text.contains("node_modules"), "{text}");
    assert!(!bench.root().join("w.png").exists());
}

/// Neither a picture elsewhere on the machine nor one of the workspace is drawn into the diagram.
#[tokio::test]
async fn a_diagram_loads_no_files() {
    let bench = with_mermaid();
    let client = bench.client();
    client.ok("render_dot", json!({"source": GRAPH, "output_path": "in.png"})).await;
    let (there, gone) = (bench.dir.path().join("there.png"), bench.dir.path().join("gone!.png"));
    fs::copy(bench.root().join("in.png"), &there).unwrap();
    let mut drawn = Vec::new();
    for file in [&there, &gone] {
        let source = format!("graph TD\n  A[\"<img src='{}' width='200' height='100'/>\"]\n", file.display());
        let text = client.ok("render_mermaid", json!({"source": source, "output_path": "d.png"})).await;
        assert!(text.contains(&format!("not loaded: file://{}", file.display())), "{text}");
        drawn.push(fs::read(bench.root().join("d.png")).unwrap());
    }
    assert!(drawn[0] == drawn[1], "it can be told whether there is a file");
    let shape = format!("flowchart TD\n  A@{{ img: \"{}\", label: \"x\" }}\n", there.display());
    let text = client.err("render_mermaid", json!({"source": shape, "output_path": "e.png"})).await;
    assert!(text.contains("not loaded: file://"), "{text}");
    // A diagram may bring a picture of its own.
    let own = "flowchart TD\n  A@{ img: \"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'/>\", label: \"x\" }\n";
    let text = client.ok("render_mermaid", json!({"source": own, "output_path": "f.png"})).await;
    assert!(!text.contains("not loaded"), "{text}");
}

#[tokio::test]
async fn a_hostile_diagram_reaches_nothing_and_is_ended() {
    let bench = with_mermaid();
    let client = bench.client();
    // A server of ours that nobody may reach, and a file that nobody may read.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    bench.write("private.txt", "the-private-text");
    let source = format!(
        "%%{{init: {{\"themeCSS\": \".node {{ background: url(http://{address}/c.png) }}\", \"securityLevel\": \"loose\", \"flowchart\": {{\"htmlLabels\": true}}}}}}%%\ngraph TD\n  \
         A[\"<img src='http://{address}/a.png'><iframe src='file://{}/private.txt'></iframe>\"] --> \
         B@{{ img: \"http://{address}/b.png\", label: \"x\" }}\n",
        bench.root().display()
    );
    let reply = client.call("render_mermaid", json!({"source": source, "output_path": "h.svg"})).await;
    assert!(listener.accept().is_err(), "somebody came: {}", reply.all_text());
    let drawn = fs::read_to_string(bench.root().join("h.svg")).unwrap_or_default();
    assert!(!drawn.contains("the-private-text"), "{drawn}");
    assert!(!drawn.contains(&address.to_string()), "who opens it would come: {drawn}");
    // A browser needs longer than this to start; should it not, the picture is whole.
    let hasty = json!({"source": "graph TD\n  A --> B\n", "output_path": "x.svg", "timeout": 1});
    let reply = client.call("render_mermaid", hasty).await;
    assert_eq!(reply.is_error, !bench.root().join("x.svg").exists(), "{}", reply.all_text());
    if reply.is_error {
        assert!(reply.all_text().contains("timed out after 1s; nothing was written"), "{}", reply.all_text());
    }
    // What the browser put aside goes, also when it was killed.
    let ours = format!("codegen-sandbox-mermaid-{}-", std::process::id());
    until(async || {
        let left = fs::read_dir("/tmp").unwrap().flatten();
        left.map(|entry| entry.file_name())
            .all(|name| !name.to_string_lossy().starts_with(&ours))
            .then_some(())
    })
    .await;
}

/// What is in the settings of the browser is started: they must not lie where somebody else can change them.
#[tokio::test]
async fn a_folder_that_somebody_else_put_there_is_not_used() {
    let bench = Bench::new();
    bench.write("node_modules/.bin/mmdc", "#!/bin/sh\ntouch ran\n");
    let mmdc = bench.root().join("node_modules/.bin/mmdc");
    fs::set_permissions(mmdc, fs::Permissions::from_mode(0o755)).unwrap();
    let (scratch, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for number in 0..64 {
        let name = format!("codegen-sandbox-mermaid-{}-{number}", std::process::id());
        std::os::unix::fs::symlink(theirs.path(), scratch.path().join(name)).unwrap();
    }
    let sandbox = Arc::new(Direct::new("direct").with_baseline(std::env::vars_os().collect()));
    let place = Place::new(sandbox, PathMap::default()).with_scratch(scratch.path());
    let settings = Settings {
        workspaces: vec![NamedRoot { name: "default".to_owned(), root: bench.root() }],
        state_dir: scratch.path().join("state"),
        ..Settings::default()
    };
    let host = Host::with_runtime(settings, Runtime::new(place), Catalog::shipped()).unwrap();
    let client = Client { session: host.session("test", Access::Full) };
    let text = client.err("render_mermaid", json!({"source": "graph TD", "output_path": "d.svg"})).await;
    assert!(text.contains("cannot be made, or is another user's"), "{text}");
    assert!(fs::read_dir(theirs.path()).unwrap().next().is_none());
    assert!(!bench.root().join("ran").exists());
}

#[tokio::test]
async fn a_missing_mermaid_is_named() {
    let mut setup = Setup::default();
    setup.settings.environment = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
    let bench = setup.bench();
    let args = json!({"source": "graph TD", "output_path": "d.svg"});
    let text = bench.client().err("render_mermaid", args).await;
    assert!(text.contains("`mmdc`") && text.contains("npm install @mermaid-js/mermaid-cli"), "{text}");
}
