//! Work in one workspace of several.

use crate::isolated::{outside_tmp, run};
use sandbox::{
    Closer as _, Narrowing, Request, Sandbox,
    direct::Direct,
    isolated::{Isolated, Tier},
};
use std::{fs, path::Path, sync::Arc};

async fn ask(sandbox: &Arc<dyn Sandbox>, folder: &Path, script: &str) -> (bool, String, Vec<String>) {
    let mut request = Request::new("sh").args(["-c", script]);
    request.cwd = Some(folder.to_owned());
    request.timeout = std::time::Duration::from_secs(60);
    let response = sandbox.spawn(request).await;
    let text = [response.stdout, response.stderr].concat();
    (response.outcome.success(), String::from_utf8_lossy(&text).into_owned(), response.notes)
}

fn to(workspace: &Path, read_only: bool) -> Narrowing {
    Narrowing { workspace: workspace.to_owned(), read_only }
}

/// A repository, a worktree of it beside it, and a folder in the repository: three workspaces.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_is_out_of_reach_of_the_others() {
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let home = tempfile::Builder::new().prefix("narrow-").tempdir_in(outside_tmp()).unwrap();
        let home = home.path().canonicalize().unwrap();
        let [one, tree, part] = ["one", "tree", "one/part"].map(|name| home.join(name));
        fs::create_dir_all(&part).unwrap();
        fs::write(one.join("secret"), "of one").unwrap();
        let git = format!("git -C {} -c user.name=T -c user.email=t@example.com", one.display());
        let setup = format!(
            "{git} init -q && {git} add . && {git} commit -qm start && {git} worktree add -q {}",
            tree.display()
        );
        run("sh", &["-c", &setup]);
        let all = Isolated::builder("all").workspace(&one).workspace(&tree).workspace(&part).tier(tier);
        let all: Arc<dyn Sandbox> = Arc::new(all.build().unwrap());
        let narrow = |workspace: &Path| Arc::clone(&all).narrowed(&to(workspace, false)).unwrap();
        let in_one = narrow(&one);
        assert!(Arc::ptr_eq(&in_one, &narrow(&one)), "the same one every time");

        let tree_file = tree.join("from-one").display().to_string();
        let (_, text, notes) = ask(
            &in_one,
            &one,
            &format!("echo x > here; cat {}/secret; echo x > {tree_file}", tree.display()),
        )
        .await;
        assert!(one.join("here").exists() && !tree.join("from-one").exists(), "{tier}: {text}");
        assert!(!text.contains("of one"), "{tier}: {text}");
        assert!(notes.iter().any(|note| note.contains("belongs to another workspace")), "{tier}: {notes:?}");
        // A folder of one's own that is a workspace as well stays what it is.
        assert!(ask(&in_one, &one, "echo x > part/file").await.0, "{tier}");

        // The repository of a worktree lies in the other workspace, and is open as far as git needs it.
        let in_tree = narrow(&tree);
        let script = format!(
            "cat {0}/secret; echo x > {0}/from-tree; echo y > new && git add new && git -c user.name=T -c user.email=t@example.com commit -qm new",
            one.display()
        );
        let (done, text, _) = ask(&in_tree, &tree, &script).await;
        assert!(done && !text.contains("of one") && !one.join("from-tree").exists(), "{tier}: {text}");
        // The folder around is read-only, not gone.
        let (_, text, _) =
            ask(&narrow(&part), &part, "cat ../secret; echo x > ../from-part; echo x > own").await;
        assert!(
            text.contains("of one") && part.join("own").exists() && !one.join("from-part").exists(),
            "{text}"
        );

        all.closer().unwrap().close().await.unwrap();
        let (done, ..) = ask(&in_one, &one, "true").await;
        assert!(!done, "the narrower ones are closed with it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_reads_changes_nothing() {
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let folder = tempfile::Builder::new().prefix("narrow-").tempdir_in(outside_tmp()).unwrap();
        let root = folder.path().canonicalize().unwrap();
        run("git", &["init", "-q", &root.display().to_string()]);
        fs::create_dir(root.join("build")).unwrap();
        let before = walk(&root);
        // Also where the configuration makes a folder in it, or one around it, writable.
        let builder = Isolated::builder("all").workspace(&root).write(root.join("build"));
        let builder = builder.write(root.parent().unwrap()).tier(tier);
        let all = Arc::new(builder.build().unwrap());
        let reading = Arc::clone(&all).narrowed(&to(&root, true)).unwrap();
        let script = "for at in x build/x .git/x .git/hooks/x; do echo x > $at; done; cat .git/HEAD; echo y > /tmp/y && cat /tmp/y";
        let (done, text, _) = ask(&reading, &root, script).await;
        assert!(done && text.contains("refs/heads") && text.contains("y\n"), "{tier}: {text}");
        all.close().await.unwrap();
        assert_eq!(walk(&root), before, "{tier}: {text}");
    }
    // In /tmp only mounts can hold it.
    let folder = tempfile::tempdir().unwrap();
    for (tier, holds) in [(Tier::Namespaces, true), (Tier::Landlock, false)] {
        let all = Arc::new(Isolated::builder("all").workspace(folder.path()).tier(tier).build().unwrap());
        let reading = all.narrowed(&to(folder.path(), true));
        assert_eq!(reading.is_some(), holds, "{tier}");
        if let Some(reading) = reading {
            let (done, text, _) = ask(&reading, folder.path(), "pwd && ! touch x").await;
            assert!(done && !folder.path().join("x").exists(), "{text}");
        }
    }
    assert!(Arc::new(Direct::new("direct")).narrowed(&to(folder.path(), true)).is_none());
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
    }
    found.sort();
    found
}
