//! Repositories in a workspace, and homes in places that the sandbox has of its own.

use crate::isolated::{build, outside_tmp, run};
use sandbox::{
    Request, Response, Sandbox,
    isolated::{Isolated, Tier},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const TIERS: [Tier; 2] = [Tier::Namespaces, Tier::Landlock];

async fn sh(sandbox: &Isolated, script: &str) -> Response {
    let request = Request::new("bash").args(["-c", script]);
    sandbox.spawn(Request { timeout: Duration::from_secs(30), ..request }).await
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_home_below_tmp_is_seen_as_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    for (path, text) in [
        ("notes", "a note\n"),
        (".ssh/id_rsa", "very-secret\n"),
        (".cargo/.package-cache", ""),
        (".cache/pip/x", ""),
    ] {
        fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
        fs::write(home.join(path), text).unwrap();
    }
    let workspace = home.join("work");
    fs::create_dir(&workspace).unwrap();
    let mut variables = sandbox::host_variables();
    variables.insert("HOME".into(), home.clone().into());
    let builder = Isolated::builder("isolated").workspace(&workspace).variables(variables);
    let sandbox = builder.tier(Tier::Namespaces).build().unwrap();
    let script = "cat ~/notes; cat ~/.ssh/id_rsa; echo locked >> ~/.cargo/.package-cache; \
                  echo kept > ~/.cache/pip/y; touch ~/planted || echo read-only; echo here > file";
    let response = sh(&sandbox, script).await;
    assert_eq!(String::from_utf8_lossy(&response.stdout), "a note\nread-only\n", "{response:?}");
    assert_eq!(fs::read_to_string(home.join(".cargo/.package-cache")).unwrap(), "locked\n");
    assert!(home.join(".cache/pip/y").exists() && workspace.join("file").exists());
    assert!(!home.join("planted").exists());
}

#[tokio::test]
async fn a_planted_pointer_to_a_repository_opens_nothing() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let (workspace, other) = (folder.path().join("work"), folder.path().join("other"));
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(&other).unwrap();
        // As a command of an earlier session would leave them: beside the workspace's root, and below it.
        fs::create_dir_all(workspace.join("sub/fake")).unwrap();
        fs::write(workspace.join(".git"), format!("gitdir: {}\n", other.display())).unwrap();
        fs::write(workspace.join("sub/.git"), "gitdir: fake\n").unwrap();
        fs::write(workspace.join("sub/fake/commondir"), format!("{}\n", other.display())).unwrap();
        let sandbox = build(tier, &workspace);
        let response = sh(&sandbox, &format!("echo planted > {}/file", other.display())).await;
        assert!(!response.outcome.success(), "{tier}: {response:?}");
        drop(sandbox);
        assert_eq!(names(&other), [""; 0], "{tier}");
    }
}

#[tokio::test]
async fn hooks_and_configuration_of_nested_repositories_are_guarded_too() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let workspace = folder.path().join("work");
        let nested = workspace.join("libs/nested");
        for repository in [&workspace, &nested] {
            run("git", &["init", "-q", repository.to_str().unwrap()]);
        }
        let config = fs::read_to_string(nested.join(".git/config")).unwrap();
        let hooks = names(&nested.join(".git/hooks"));
        let sandbox = build(tier, &workspace);
        sh(&sandbox, "cd libs/nested; echo evil > .git/hooks/pre-commit; git config core.fsmonitor evil")
            .await;
        sh(&sandbox, "cd libs/nested; mv .git/hooks .git/x && mkdir .git/hooks && touch .git/hooks/pre-push")
            .await;
        let commit =
            "cd libs/nested && touch a && git add a && git -c user.name=a -c user.email=a@b commit -qm a";
        let response = sh(&sandbox, commit).await;
        assert!(response.outcome.success(), "{tier}: {response:?}");
        drop(sandbox);
        assert_eq!(fs::read_to_string(nested.join(".git/config")).unwrap(), config, "{tier}");
        assert_eq!(names(&nested.join(".git/hooks")), hooks, "{tier}");
        assert!(!nested.join(".git/commondir").exists(), "{tier}: the placeholder goes with the sandbox");
    }
}

/// Their `.git` is a file, and what it points at lies in the repository of the workspace.
#[tokio::test]
async fn submodules_and_worktrees_are_guarded_and_can_be_committed_in() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let (workspace, origin) = (folder.path().join("work"), folder.path().join("origin"));
        let git = |at: &Path, words: &[&str]| {
            let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
            run("git", &[&["-C", at.to_str().unwrap()], &who[..], words].concat());
        };
        for repository in [&workspace, &origin] {
            run("git", &["init", "-q", repository.to_str().unwrap()]);
            git(repository, &["commit", "-q", "--allow-empty", "-m", "first"]);
        }
        git(&workspace, &["submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"]);
        git(&workspace, &["commit", "-q", "-m", "sub"]);
        git(&workspace, &["worktree", "add", "-q", "tree", "-b", "side"]);
        let guarded = |of: &Path| -> Vec<(String, Vec<u8>)> {
            let files = [
                "sub/.git",
                "tree/.git",
                ".git/config",
                ".git/modules/sub/config",
                ".git/worktrees/tree/commondir",
                ".git/worktrees/tree/gitdir",
            ];
            let hooks = [".git/hooks", ".git/modules/sub/hooks"]
                .map(|hooks| (hooks.to_owned(), names(&of.join(hooks)).join(" ").into_bytes()));
            let content = |file: &str| (file.to_owned(), fs::read(of.join(file)).unwrap());
            files.map(content).into_iter().chain(hooks).collect()
        };
        let before = guarded(&workspace);
        let sandbox = build(tier, &workspace);
        for place in ["sub", "tree"] {
            for evil in [
                "echo evil > $(git rev-parse --git-path hooks)/pre-commit",
                "git config core.fsmonitor evil",
                "echo ../../../evil > $(git rev-parse --git-dir)/commondir",
                "echo gitdir: ../evil > .git",
                "mv .git was && git init -q",
                "rm -rf $(git rev-parse --git-path hooks) && mkdir -p $(git rev-parse --git-path hooks) && touch $(git rev-parse --git-path hooks)/pre-push",
            ] {
                sh(&sandbox, &format!("cd {place}; {evil}")).await;
                // Where nothing can be frozen, it is put back.
                let after = guarded(&workspace);
                assert_eq!(after, before, "{tier}, {place}: {evil}");
            }
            let commit = "echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a && git log --oneline | wc -l";
            let response = sh(&sandbox, &format!("cd {place} && {commit}")).await;
            assert!(response.outcome.success(), "{tier}, {place}: {response:?}");
        }
        drop(sandbox);
        assert_eq!(guarded(&workspace), before, "{tier}");
    }
}

#[tokio::test]
async fn what_is_put_back_is_not_written_through_a_link() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let (workspace, other) = (folder.path().join("work"), folder.path().join("other"));
    run("git", &["init", "-q", workspace.to_str().unwrap()]);
    fs::write(workspace.join(".git/hooks/pre-push"), "#!/bin/sh\n").unwrap();
    fs::create_dir(&other).unwrap();
    let sandbox = build(Tier::Landlock, &workspace);
    let script = format!("rm -rf .git/hooks; ln -s {} .git/hooks; exit 1", other.display());
    let response = sh(&sandbox, &script).await;
    assert!(response.notes.iter().any(|note| note.contains("undid a change")), "{response:?}");
    assert_eq!(names(&other), [""; 0]);
    let hooks = workspace.join(".git/hooks");
    assert!(!hooks.is_symlink() && hooks.join("pre-push").exists());
    // One of the user's own is left alone.
    fs::remove_dir_all(&hooks).unwrap();
    symlink(&other, &hooks).unwrap();
    assert!(sh(&sandbox, "true").await.outcome.success());
    assert!(hooks.is_symlink());
}

/// What the server does at its start and at each call, to a workspace in which a command left traps.
#[tokio::test]
async fn traps_in_a_repository_lead_the_server_nowhere() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let (workspace, other) = (folder.path().join("work"), folder.path().join("other"));
        fs::create_dir(&other).unwrap();
        run("git", &["init", "-q", workspace.to_str().unwrap()]);
        let other_name = other.display();
        let traps = format!(
            "set -e
             mkdir link hooks linked-git fifo fifo-inside loop space
             (cd link && git init -q . && ln -s {other_name}/pwned .git/commondir)
             (cd hooks && git init -q . && rm -rf .git/hooks && ln -s {other_name}/hooks .git/hooks)
             (cd linked-git && ln -s {other_name} .git)
             mkfifo fifo/.git
             (cd fifo-inside && git init -q . && mkfifo .git/commondir && rm .git/config && mkfifo .git/config)
             (cd loop && git init -q . && rm -rf .git/hooks && ln -s hooks .git/hooks)"
        );
        // Planted while a server runs, which notices the new repositories; then found by the next server.
        let first = build(tier, &workspace);
        let planted = sh(&first, &traps).await;
        assert!(planted.outcome.success(), "{tier}: {planted:?}");
        drop(first);
        for _ in 0..2 {
            let sandbox = Isolated::builder("isolated").workspace(&workspace).build().unwrap();
            assert_eq!(sandbox.tier(), Tier::Namespaces, "what is in the workspace does not choose the tier");
            drop(sandbox);
            let sandbox = build(tier, &workspace);
            let response = sh(&sandbox, "echo works > file; cat file").await;
            assert_eq!(response.stdout, b"works\n", "{tier}: {response:?}");
            assert!(
                response
                    .notes
                    .iter()
                    .any(|note| note.contains("not guarded") && note.contains("loop/.git/hooks")),
                "{tier}: the repository is named: {response:?}"
            );
            drop(sandbox);
            assert_eq!(names(&other), [""; 0], "{tier}");
        }
    }
}

#[tokio::test]
async fn linked_hooks_are_frozen_with_what_they_point_to() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let workspace = folder.path().join("work");
        run("git", &["init", "-q", workspace.to_str().unwrap()]);
        let hooks = workspace.join("tools/githooks");
        fs::create_dir_all(&hooks).unwrap();
        fs::write(hooks.join("pre-push"), "#!/bin/sh\n").unwrap();
        fs::remove_dir_all(workspace.join(".git/hooks")).unwrap();
        symlink("../tools/githooks", workspace.join(".git/hooks")).unwrap();
        let sandbox = build(tier, &workspace);
        let before = sh(&sandbox, "cat .git/hooks/pre-push").await;
        assert_eq!(before.stdout, b"#!/bin/sh\n", "{tier}: {before:?}");
        for attempt in [
            "echo evil > .git/hooks/pre-commit",
            "echo evil >> tools/githooks/pre-push",
            "rm .git/hooks; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
            "rm .git/hooks; ln -s ../evil .git/hooks",
            "mv tools t2; mkdir -p tools/githooks; echo evil > tools/githooks/pre-commit",
            "mv tools/githooks t3; mkdir tools/githooks; ln -s /bin/true tools/githooks/pre-commit",
            "chmod +x tools/githooks/pre-push",
        ] {
            let response = sh(&sandbox, attempt).await;
            assert_eq!(names(&hooks), ["pre-push"], "{tier}, {attempt}: {response:?}");
            assert_eq!(fs::read(hooks.join("pre-push")).unwrap(), b"#!/bin/sh\n", "{tier}, {attempt}");
            let link = fs::read_link(workspace.join(".git/hooks")).unwrap();
            assert_eq!(link, Path::new("../tools/githooks"), "{tier}, {attempt}");
            assert!(!response.notes.iter().any(|note| note.contains("not guarded")), "{tier}: {response:?}");
        }
    }
}

#[tokio::test]
async fn the_repository_of_a_submodule_cannot_be_swapped_from_above() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let (workspace, library) = (folder.path().join("work"), folder.path().join("library"));
    run("git", &["init", "-q", workspace.to_str().unwrap()]);
    run("git", &["init", "-q", library.to_str().unwrap()]);
    let (at, from) = (workspace.to_str().unwrap(), library.to_str().unwrap());
    run(
        "git",
        &[
            "-C",
            from,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "a",
        ],
    );
    run(
        "git",
        &["-C", at, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from, "libs/sub"],
    );
    let sandbox = build(Tier::Namespaces, &workspace);
    for folder in [".git/modules", ".git/modules/libs", ".git/modules/libs/sub"] {
        // Not `mv`, which copies and deletes what it cannot rename.
        let attempt = format!("python3 -c 'import os; os.rename(\"{folder}\", \"{folder}-2\")'");
        let response = sh(&sandbox, &attempt).await;
        assert!(!response.outcome.success(), "{attempt}: {response:?}");
    }
    let commit = "cd libs/sub && touch a && git add a && git -c user.name=a -c user.email=a@b commit -qm a";
    let response = sh(&sandbox, commit).await;
    assert!(response.outcome.success(), "{response:?}");
}

/// Without mounts a change is undone whoever made it, but not lost.
#[tokio::test]
async fn what_is_undone_is_kept() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let workspace = folder.path().join("work");
    run("git", &["init", "-q", workspace.to_str().unwrap()]);
    let sandbox = build(Tier::Landlock, &workspace);
    let long = sandbox::StartRequest {
        command: "bash".into(),
        args: vec![
            "-c".into(),
            "echo up; read -r line; echo evil > .git/hooks/post-merge; echo down; read -r line".into(),
        ],
        stdio: sandbox::Stdio::Separate,
        ..sandbox::StartRequest::default()
    };
    let mut long = sandbox.streaming().unwrap().start(long).await.unwrap();
    let mut stdin = long.stdin.take().unwrap();
    long.stdout.read_exact(&mut [0; 3]).await.unwrap();
    run("git", &["-C", workspace.to_str().unwrap(), "config", "user.name", "Ann"]);
    stdin.write_all(b"\n").await.unwrap();
    long.stdout.read_exact(&mut [0; 5]).await.unwrap();
    // One that begins and ends while the hook stands there must not take it for the truth.
    let other = sh(&sandbox, "test -e .git/hooks/post-merge").await;
    assert!(other.outcome.success(), "{other:?}");
    stdin.write_all(b"\n").await.unwrap();
    assert!(long.control.wait().await.success());
    assert!(!workspace.join(".git/hooks/post-merge").exists());
    let config = fs::read_to_string(workspace.join(".git/config")).unwrap();
    assert!(!config.contains("Ann"), "{config}");
    let note = other.notes.iter().find(|note| note.contains(".git/config")).unwrap();
    let kept = note.split("kept as ").nth(1).unwrap().split(',').next().unwrap();
    assert!(fs::read_to_string(kept).unwrap().contains("Ann"), "{note}");
    assert_eq!(names(&workspace.join(".git/undone-by-sandbox")).len(), 2);
}

/// What is kept is bounded by number and age; what is not the sandbox's own, and what links lead to, stays.
#[tokio::test]
async fn what_is_kept_is_not_kept_for_ever() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let workspace = folder.path().join("work");
    run("git", &["init", "-q", workspace.to_str().unwrap()]);
    let kept = workspace.join(".git/undone-by-sandbox");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let days = |count: u128| now - count * 24 * 3600 * 1000;
    fs::create_dir_all(kept.join(format!("{}-hooks/deep/er", days(8)))).unwrap();
    fs::create_dir(workspace.join("precious")).unwrap();
    fs::write(workspace.join("precious/file"), "precious").unwrap();
    for place in [kept.join(format!("{}-hooks/deep/link", days(8))), kept.join(format!("{}-link", days(9)))] {
        symlink(workspace.join("precious"), place).unwrap();
    }
    fs::write(kept.join("a note of mine"), "").unwrap();
    (0..150).for_each(|n| fs::write(kept.join(format!("{}-config", days(1) + n)), "").unwrap());
    let sandbox = build(Tier::Landlock, &workspace);
    assert!(sh(&sandbox, "true").await.outcome.success());
    assert_eq!(names(&kept).len(), 153, "nothing was undone");
    let response = sh(&sandbox, "echo evil > .git/hooks/post-merge").await;
    assert!(response.notes.iter().any(|note| note.contains("kept as")), "{response:?}");
    let left = names(&kept);
    assert_eq!(left.len(), 102, "{left:?}");
    assert!(left.contains(&format!("{}-config", days(1) + 149)), "{left:?}");
    assert!(left.iter().any(|name| name.ends_with("-post-merge")), "{left:?}");
    assert!(left.contains(&"a note of mine".to_owned()), "{left:?}");
    assert_eq!(fs::read_to_string(workspace.join("precious/file")).unwrap(), "precious");
}

#[tokio::test]
async fn a_link_that_appears_later_stops_no_command() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let hooks: Vec<_> =
        TIERS.iter().map(|tier| folder.path().join(tier.name()).join("sub/.git/hooks")).collect();
    let mut sandboxes = Vec::new();
    for (tier, hooks) in TIERS.into_iter().zip(&hooks) {
        let workspace = folder.path().join(tier.name());
        run("git", &["init", "-q", workspace.join("sub").to_str().unwrap()]);
        let sandbox = build(tier, &workspace);
        assert!(sh(&sandbox, "true").await.outcome.success());
        fs::remove_dir_all(hooks).unwrap();
        symlink("..", hooks).unwrap();
        sandboxes.push(sandbox);
    }
    // As long as a plan is trusted.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for (sandbox, hooks) in sandboxes.iter().zip(&hooks) {
        let response = sh(sandbox, "echo works").await;
        assert_eq!(response.stdout, b"works\n", "{}: {response:?}", sandbox.tier());
        let named = |note: &String| note.contains("not guarded") && note.contains(hooks.to_str().unwrap());
        assert!(response.notes.iter().any(named), "{}: {response:?}", sandbox.tier());
    }
}

const COMMIT: &str = "git add . && git -c user.name=a -c user.email=a@b commit -qm a";

#[tokio::test]
async fn the_configuration_of_a_worktree_cannot_be_planted() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let (workspace, linked) = (folder.path().join("work"), folder.path().join("linked"));
        let at = workspace.to_str().unwrap();
        run("git", &["init", "-q", at]);
        let who = ["-C", at, "-c", "user.name=a", "-c", "user.email=a@b"];
        run("git", &[&who[..], &["commit", "-q", "--allow-empty", "-m", "a"]].concat());
        run("git", &["-C", at, "worktree", "add", "-q", linked.to_str().unwrap()]);
        run("git", &["-C", at, "config", "extensions.worktreeConfig", "true"]);
        let places = [".git/config.worktree", ".git/worktrees/linked/config.worktree"];
        for root in [&workspace, &linked] {
            let sandbox = build(tier, root);
            for place in places {
                let file = workspace.join(place).display().to_string();
                let script = format!(
                    "printf '[core]\\n\\tfsmonitor = evil\\n' > {file}; rm -f {file}; mv /tmp/x {file}"
                );
                let response = sh(&sandbox, &script).await;
                let text = fs::read_to_string(workspace.join(place)).unwrap_or_default();
                assert_eq!(text, "", "{tier}, {}: {response:?}", root.display());
            }
            let response = sh(&sandbox, &format!("touch {} && {COMMIT}", tier.name())).await;
            assert!(response.outcome.success(), "{tier}: {response:?}");
            drop(sandbox);
            for place in places {
                assert!(!workspace.join(place).exists(), "{tier}: it goes with the sandbox");
            }
        }
    }
}

#[tokio::test]
async fn a_repository_that_a_command_made_is_named_and_then_guarded() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let workspace = folder.path().join("work");
        run("git", &["init", "-q", workspace.to_str().unwrap()]);
        let sandbox = build(tier, &workspace);
        // One where programs fill in files, which nobody walks through, but listed; and one that is not.
        let script = format!(
            "for at in target/sub libs/own; do git init -q $at; (cd $at; echo a > a; {COMMIT}); done; \
             git update-index --add --cacheinfo 160000,$(git -C target/sub rev-parse HEAD),target/sub; sleep 1"
        );
        let response = sh(&sandbox, &script).await;
        for name in ["target/sub", "libs/own"] {
            let named = |note: &String| note.contains("new in the workspace") && note.contains(name);
            assert_eq!(
                response.notes.iter().filter(|note| named(note)).count(),
                1,
                "{tier}, {name}: {response:?}"
            );
        }
        // As long as a plan is trusted.
        tokio::time::sleep(Duration::from_millis(2100)).await;
        let script = "for at in target/sub libs/own; do git -C $at config core.fsmonitor evil; done; true";
        let response = sh(&sandbox, script).await;
        assert!(
            !response.notes.iter().any(|note| note.contains("new in the workspace")),
            "{tier}: {response:?}"
        );
        for name in ["target/sub", "libs/own"] {
            let config = fs::read_to_string(workspace.join(name).join(".git/config")).unwrap();
            assert!(!config.contains("evil"), "{tier}, {name}: {response:?}");
        }
    }
}

#[tokio::test]
async fn a_folder_of_a_repository_can_be_committed_in_and_a_bare_one_is_guarded() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let (root, bare) = (folder.path().join("root"), folder.path().join("bare"));
        let workspace = root.join("packages/one");
        fs::create_dir_all(&workspace).unwrap();
        run("git", &["init", "-q", root.to_str().unwrap()]);
        run("git", &["init", "-q", "--bare", bare.to_str().unwrap()]);
        let (holder, remote) = (folder.path().join("holder"), folder.path().join("holder/a/remote.git"));
        run("git", &["init", "-q", "--bare", remote.to_str().unwrap()]);
        fs::write(root.join("other"), "").unwrap();
        let evil = |git: &Path| {
            let git = git.display();
            format!(
                "echo evil > {git}/hooks/pre-commit; git -C {git} config core.fsmonitor evil; echo evil >> {git}/config; \
                 echo ../evil > {git}/commondir; echo evil > {git}/config.worktree; true"
            )
        };
        let all = [(&workspace, root.join(".git")), (&bare, bare.clone()), (&holder, remote)];
        for (place, git) in all {
            let state = || {
                let config = fs::read_to_string(git.join("config")).unwrap();
                (config, names(&git.join("hooks")), names(&git).iter().any(|name| name == "commondir"))
            };
            let before = state();
            let sandbox = build(tier, place);
            if place == &workspace {
                let response = sh(&sandbox, &format!("touch a && {COMMIT} && git log --oneline")).await;
                assert!(response.outcome.success(), "{tier}: {response:?}");
                let response = sh(&sandbox, "echo changed > ../../other").await;
                assert!(!response.outcome.success(), "{tier}: only the repository is open: {response:?}");
            }
            sh(&sandbox, &evil(&git)).await;
            if place != &workspace {
                // Nor once it looks like a folder of any other kind.
                let away = "for name in HEAD objects refs; do mv $name $name.away; done; mkdir .git; true";
                sh(&sandbox, &format!("cd {} && {away}", git.display())).await;
                sh(&sandbox, &evil(&git)).await;
            }
            drop(sandbox);
            assert_eq!(state(), before, "{tier}, {}", place.display());
        }
    }
}
