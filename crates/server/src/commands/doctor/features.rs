//! Programs behind single tools.

use super::{Desk, Item, Section, ask};

/// Where `render_mermaid` looks for Mermaid and for a browser, in its order. Starting them would take seconds.
const MERMAID: &str = "[ -x node_modules/.bin/mmdc ] && echo node_modules/.bin/mmdc || command -v mmdc || { echo not found >&2; exit 1; }";
const BROWSER: &str = "for name in \"${PUPPETEER_EXECUTABLE_PATH:-}\" chromium chromium-browser \
    google-chrome-stable google-chrome; do
    [ -n \"$name\" ] && command -v \"$name\" && exit
done
echo not found >&2; exit 1";

pub(super) async fn look(desk: &Desk) -> Section {
    let runtime = desk.host.runtime();
    let place = runtime.place();
    let sandbox = &*place.sandbox;
    let root = desk.host.workspaces.values().next().map(|workspace| place.paths.inward(workspace.root()));
    let found = async |script: &str| {
        // At the root of a workspace, whose own packages come first.
        let folder = root.as_ref().map_or_else(|| "/".to_owned(), |root| root.to_string_lossy().into_owned());
        ask(sandbox, "sh", &["-c", &format!("cd \"$1\" || exit\n{script}"), "doctor", &folder]).await
    };
    let item = |name: &str, program: &str, tool: &str, found: Result<String, String>, get: &str| {
        let text = found.map(|found| format!("{found} (for {tool})"));
        Item::there(name, text.map_err(|why| format!("{program}: {why} (for {tool})")), get).word(name)
    };
    let dot = ask(sandbox, "dot", &["-V"]).await;
    let items = vec![
        item("graphviz", "dot", "render_dot", dot, "the package is called graphviz"),
        item(
            "mermaid",
            "mmdc",
            "render_mermaid",
            found(MERMAID).await,
            "npm install @mermaid-js/mermaid-cli, in the project or with --global",
        ),
        item(
            "browser",
            "chromium",
            "render_mermaid",
            found(BROWSER).await,
            "the package is called chromium; another one can be named in PUPPETEER_EXECUTABLE_PATH",
        ),
    ];
    Section { name: "features", items }
}
