//! Workspaces that hold the user's home, and what the host runs by itself out of a home.

use crate::isolated::outside_tmp;
use sandbox::{
    Request, Response, Sandbox,
    isolated::{Builder, Isolated, Tier},
};
use std::{fs, os::unix::net::UnixListener, path::Path, time::Duration};

const TIERS: [Tier; 2] = [Tier::Namespaces, Tier::Landlock];

async fn sh(sandbox: &Isolated, script: &str) -> Response {
    let request = Request::new("bash").args(["-c", script]);
    sandbox.spawn(Request { timeout: Duration::from_secs(30), ..request }).await
}

fn put(home: &Path, files: &[&str]) {
    for name in files {
        let path = home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "very-secret\n").unwrap();
    }
}

fn builder(home: &Path, workspace: &Path, more: &[(&str, String)]) -> Builder {
    let mut variables = sandbox::host_variables();
    for name in ["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "CARGO_HOME"] {
        variables.remove(std::ffi::OsStr::new(name));
    }
    variables.insert("HOME".into(), home.into());
    variables.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
    Isolated::builder("isolated").workspace(workspace).variables(variables)
}

#[tokio::test]
async fn a_workspace_that_holds_the_home_opens_neither_secrets_nor_start_up_files() {
    let secrets = [".ssh/id_rsa", ".config/gh/hosts.yml", ".bash_history"];
    for tier in TIERS {
        for above in [false, true] {
            let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
            let home = folder.path().join("home");
            put(&home, &secrets);
            put(&home, &[".bashrc", ".config/fish/config.fish", "project/file", ".config/other/file"]);
            put(&home, &[".cache/p10k-instant-prompt-me.zsh", ".cache/pip/x"]);
            let workspace = if above { folder.path() } else { &home };
            let sandbox = builder(&home, workspace, &[]).tier(tier).build().unwrap();
            let script = "cat ~/.ssh/id_rsa ~/.config/gh/hosts.yml ~/.bash_history; \
                          mv ~/.config ~/moved; cat ~/moved/gh/hosts.yml; \
                          echo evil >> ~/.bashrc; rm -f ~/.bashrc; echo evil > ~/.config/fish/config.fish; \
                          echo evil > ~/.cache/p10k-instant-prompt-me.zsh; echo evil > ~/.zshenv; mkdir -p ~/.config/autostart && echo evil > ~/.config/autostart/x; \
                          echo mine > ~/project/file; echo mine > ~/project/new";
            let response = sh(&sandbox, script).await;
            let printed = String::from_utf8_lossy(&response.stdout).into_owned();
            assert!(!printed.contains("very-secret"), "{tier}: {response:?}");
            for name in [".bashrc", ".config/fish/config.fish", ".cache/p10k-instant-prompt-me.zsh"] {
                assert_eq!(fs::read_to_string(home.join(name)).unwrap(), "very-secret\n", "{tier}, {name}");
            }
            for name in [".zshenv", ".config/autostart"] {
                assert!(!home.join(name).exists(), "{tier}, {name}: {response:?}");
            }
            assert_eq!(
                fs::read_to_string(home.join("project/new")).unwrap(),
                "mine\n",
                "{tier}: {response:?}"
            );
            assert_eq!(fs::read_to_string(home.join("project/file")).unwrap(), "mine\n", "{tier}");
        }
    }
}

/// A workspace inside a hidden place is open, what lies beside it is not.
#[tokio::test]
async fn a_workspace_inside_a_hidden_place_opens_itself_alone() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let home = folder.path().join("home");
    put(&home, &[".claude/project/file", ".claude/token"]);
    std::os::unix::fs::symlink("project", home.join(".claude/link")).unwrap();
    for tier in TIERS {
        let sandbox = builder(&home, &home.join(".claude/project"), &[]).tier(tier).build().unwrap();
        let response = sh(&sandbox, "cat file; cat ../token").await;
        assert_eq!(response.stdout, b"very-secret\n", "{tier}: {response:?}");
    }
}

#[tokio::test]
async fn what_shells_run_out_of_the_cache_cannot_be_planted() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let (home, workspace) = (folder.path().join("home"), folder.path().join("work"));
        fs::create_dir(&workspace).unwrap();
        put(&home, &[".cache/p10k-instant-prompt-me.zsh", ".cache/gitstatus/gitstatusd", ".cache/known/x"]);
        let sandbox = builder(&home, &workspace, &[]).tier(tier).build().unwrap();
        let script = "cd ~/.cache; for f in p10k-instant-prompt-me.zsh gitstatus/gitstatusd new.zsh; do \
                      echo evil > $f; done; mkdir -p p10k-me && echo evil > p10k-me/x; echo ok > known/y; \
                      mkdir new-tool && echo ok > new-tool/x && cat new-tool/x";
        let response = sh(&sandbox, script).await;
        if tier == Tier::Namespaces {
            assert_eq!(response.stdout, b"ok\n", "a tool nobody knows works, too: {response:?}");
            assert_eq!(sh(&sandbox, "cat ~/.cache/new-tool/x").await.stdout, b"ok\n");
        }
        let cache = home.join(".cache");
        assert_eq!(fs::read_to_string(cache.join("known/y")).unwrap(), "ok\n", "{tier}");
        for name in ["p10k-instant-prompt-me.zsh", "gitstatus/gitstatusd"] {
            assert_eq!(fs::read_to_string(cache.join(name)).unwrap(), "very-secret\n", "{tier}, {name}");
        }
        assert!(!cache.join("new.zsh").exists() && !cache.join("p10k-me").exists(), "{tier}");
    }
}

#[tokio::test]
async fn credentials_that_variables_move_are_hidden_and_so_are_sockets_without_a_full_name() {
    let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
    let (home, workspace) = (folder.path().join("home"), folder.path().join("work"));
    fs::create_dir(&workspace).unwrap();
    let (cargo, config) = (folder.path().join("cargo"), folder.path().join("config"));
    put(&cargo, &["credentials.toml"]);
    put(&config, &["gh/hosts.yml"]);
    let own = [
        ".cache/huggingface/token",
        ".config/pypoetry/auth.toml",
        ".local/share/fish/fish_history",
        "snap/firefox/common/.mozilla/cookies.sqlite",
        ".dockercfg",
        ".databrickscfg",
    ];
    put(&home, &own);
    put(&home, &[".cache/tool/x"]);
    let _sockets = ["agent.old", ".cache/tool/agent"].map(|name| {
        let first = home.join("first");
        let socket = UnixListener::bind(&first).unwrap();
        fs::rename(first, home.join(name)).unwrap();
        socket
    });
    let more =
        [("CARGO_HOME", cargo.display().to_string()), ("XDG_CONFIG_HOME", config.display().to_string())];
    for tier in TIERS {
        let sandbox = builder(&home, &workspace, &more).tier(tier).build().unwrap();
        let mut script =
            format!("cat {}/credentials.toml {}/gh/hosts.yml; cd ~; cat", cargo.display(), config.display());
        own.iter().for_each(|name| script.push_str(&format!(" {name}")));
        if tier == Tier::Namespaces {
            script.push_str(
                "; for s in agent.old .cache/tool/agent; do python3 -c 'import socket, sys; \
                 socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print(\"reached\")' $s; done",
            );
        }
        let response = sh(&sandbox, &script).await;
        assert_eq!(String::from_utf8_lossy(&response.stdout), "", "{tier}: {response:?}");
    }
}

/// A folder with a link out of it, a file, and a folder in the workspace, as an operator names them.
#[tokio::test]
async fn what_is_named_is_hidden_wherever_it_lies() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let shared = tempfile::tempdir_in("/tmp").unwrap();
        let at = |name: &str| folder.path().join(name);
        put(folder.path(), &["secrets/KEY", "elsewhere/LINKED", "tokens", "work/secrets/KEY", "beside"]);
        put(shared.path(), &["KEY"]);
        fs::create_dir(at("home")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere/LINKED"), at("secrets/LINKED")).unwrap();
        std::os::unix::fs::symlink(at("secrets"), at("other-name")).unwrap();
        let mut named = builder(&at("home"), &at("work"), &[]).tier(tier).hide(shared.path());
        for name in ["other-name", "tokens", "work/secrets"] {
            named = named.hide(at(name));
        }
        let sandbox = named.build().unwrap();
        let script = format!(
            "cat {0}/KEY secrets/KEY; mv secrets mine; cat mine/KEY; cd {1}; \
             cat secrets/KEY other-name/KEY secrets/LINKED elsewhere/LINKED tokens",
            shared.path().display(),
            folder.path().display()
        );
        let response = sh(&sandbox, &script).await;
        assert_eq!(String::from_utf8_lossy(&response.stdout), "", "{tier}: {response:?}");
        let open = sh(&sandbox, "cat ../beside; f=$(mktemp) && echo new > $f && cat $f").await;
        assert_eq!(String::from_utf8_lossy(&open.stdout), "very-secret\nnew\n", "{tier}: {open:?}");
    }
}

/// A cover lies on what was there: what takes its place needs another.
#[tokio::test]
async fn what_takes_the_place_of_something_hidden_is_hidden_soon() {
    for tier in TIERS {
        let folder = tempfile::tempdir_in(outside_tmp()).unwrap();
        let at = |name: &str| folder.path().join(name);
        put(folder.path(), &["home/.netrc", "secrets/KEY", "new/KEY", "new-netrc"]);
        fs::create_dir(at("work")).unwrap();
        let sandbox = builder(&at("home"), &at("work"), &[]).tier(tier).hide(at("secrets")).build().unwrap();
        let script = "cat ~/.netrc ../secrets/KEY";
        assert_eq!(sh(&sandbox, script).await.stdout, b"", "{tier}");
        fs::rename(at("secrets"), at("old")).unwrap();
        fs::rename(at("new"), at("secrets")).unwrap();
        fs::rename(at("new-netrc"), at("home/.netrc")).unwrap();
        let until = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            let response = sh(&sandbox, script).await;
            if response.stdout.is_empty() {
                break;
            }
            assert!(std::time::Instant::now() < until, "{tier}: {response:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
