//! Real work under the default profile, in each tier.

use sandbox::{
    Outcome, Request, Sandbox,
    isolated::{Isolated, Tier},
};
use std::{path::Path, time::Duration};

const TIERS: [Tier; 2] = [Tier::Namespaces, Tier::Landlock];

struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir_in(crate::isolated::outside_tmp()).unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a script and expects it to succeed; returns what it printed.
    async fn run(&self, tier: Tier, script: &str) -> String {
        let sandbox = Isolated::builder("work").workspace(self.path()).tier(tier).build().unwrap();
        let mut request = Request::new("bash").args(["-c", script]);
        request.timeout = Duration::from_secs(170);
        let response = sandbox.spawn(request).await;
        let text = [&response.stdout[..], &response.stderr[..]].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert_eq!(response.outcome, Outcome::Exited(0), "{tier}: {script}\n{text}\n{:?}", response.notes);
        text
    }
}

#[tokio::test]
async fn go_test() {
    for tier in TIERS {
        let project = Project::new(&[
            ("go.mod", "module example.com/x\n\ngo 1.21\n"),
            (
                "x_test.go",
                r#"package x

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := net.Dial("unix", path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
}
"#,
            ),
        ]);
        assert!(project.run(tier, "go vet ./... && go test ./...").await.contains("ok"));
    }
}

#[tokio::test]
async fn cargo_build_with_a_dependency() {
    for tier in TIERS {
        let project = Project::new(&[
            (
                "Cargo.toml",
                "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\nitoa = \"1\"\n[workspace]\n",
            ),
            ("src/main.rs", "fn main() { println!(\"{}\", itoa::Buffer::new().format(42)); }\n"),
        ]);
        assert!(project.run(tier, "cargo run -q").await.contains("42"));
    }
}

#[tokio::test]
async fn npm_install() {
    for tier in TIERS {
        let project = Project::new(&[
            (
                "package.json",
                r#"{"name":"x","version":"1.0.0","private":true,"scripts":{"check":"node index.js"}}"#,
            ),
            ("index.js", "console.log('odd', require('is-odd')(3));\n"),
        ]);
        let text = project.run(tier, "npm install --no-audit --no-fund is-odd@3 && npm run check").await;
        assert!(text.contains("odd true"), "{text}");
    }
}

#[tokio::test]
async fn pip_into_a_venv_and_pytest_with_sockets() {
    let test = r#"
import asyncio, multiprocessing, os, socket, sqlite3, subprocess, sys, tempfile


def test_tcp():
    listener = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(listener.getsockname())


def test_unix(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    os.chdir(tmp_path)
    listener.bind("s")
    listener.listen()
    socket.socket(socket.AF_UNIX).connect("s")


def test_processes():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]


def test_database(tmp_path):
    sqlite3.connect(tmp_path / "x.db").execute("create table t (a)")


def test_loop():
    async def go():
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(1)", stdout=-1)
        return (await process.communicate())[0]
    assert asyncio.run(go()) == b"1\n"


def test_terminal():
    assert subprocess.run(["script", "-qc", "tty", "/dev/null"], capture_output=True, text=True).stdout.startswith("/dev/pts")
"#;
    let project = Project::new(&[("test_x.py", test)]);
    // Making a venv is slow, so the second tier installs into the one that the first has made.
    let scripts = [
        "python3 -m venv .venv && .venv/bin/pip install -q pytest && .venv/bin/pytest -q test_x.py",
        ".venv/bin/pip install -q --force-reinstall --no-deps pytest && .venv/bin/pytest -q test_x.py",
    ];
    for (tier, script) in TIERS.into_iter().zip(scripts) {
        let text = project.run(tier, script).await;
        assert!(text.contains("6 passed"), "{text}");
    }
}

#[tokio::test]
async fn git_day() {
    for tier in TIERS {
        let project = Project::new(&[("file", "one\n")]);
        crate::isolated::run("git", &["init", "-q", project.path().to_str().unwrap()]);
        let script = "
set -e
export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@y GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@y
git add . && git commit -qm one
git checkout -qb side && echo two >> file && git commit -qam two
git checkout -q - && git merge -q side && git tag v1
echo three >> file && git stash -q && git stash pop -q
git gc -q && git fsck && git clone -q . clone && git worktree add -q tree side
git log --oneline | wc -l
";
        let text = project.run(tier, script).await;
        assert!(text.lines().any(|line| line.trim() == "2"), "{text}");
    }
}

#[tokio::test]
async fn playwright_test() {
    let test = r#"
const { chromium } = require("playwright-core");
const http = require("node:http");
const assert = require("node:assert");

(async () => {
  const server = http.createServer((_, answer) => {
    answer.setHeader("content-type", "text/html");
    answer.end("<title>shop</title><button onclick=\"this.textContent='bought'\">buy</button>");
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  // The browser's own sandbox wants namespaces inside of ours.
  const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox"] });
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  assert.equal(await page.title(), "shop");
  await page.click("button");
  assert.equal(await page.textContent("button"), "bought");
  await page.screenshot({ path: "shop.png" });
  await browser.close();
  server.close();
  console.log("1 passed");
})();
"#;
    let (modules, chromium) = (testkit::tools::node_modules(), testkit::tools::path("chromium"));
    for tier in TIERS {
        let project = Project::new(&[("shop.test.cjs", test)]);
        let script = format!("NODE_PATH={} node shop.test.cjs {}", modules.display(), chromium.display());
        assert!(project.run(tier, &script).await.contains("1 passed"));
        assert!(project.path().join("shop.png").exists());
    }
}
