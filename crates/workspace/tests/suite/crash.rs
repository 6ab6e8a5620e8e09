//! kill -9 in the middle of writing: the old or the new content, and no litter after the next start.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use workspace::{Expected, Workspace};

use crate::kit::{Box, NEVER, myself};

const ROOT: &str = "WORKSPACE_TEST_CRASH_ROOT";
const FILES: usize = 4;

fn body(seed: usize) -> Vec<u8> {
    let mut text = format!("start {seed}\n");
    for line in 0..400 {
        text.push_str(&format!("{seed} {line}\n"));
    }
    text.push_str(&format!("end {seed}\n"));
    text.into_bytes()
}

/// Old or new, never a mixture: first and last line agree, and every line between.
fn whole(text: &str) -> bool {
    let Some(seed) = text.lines().next().and_then(|line| line.strip_prefix("start ")) else { return false };
    seed.parse().is_ok_and(|seed| body(seed) == text.as_bytes())
}

/// The part that gets killed: does nothing unless asked.
#[test]
fn child_that_writes_for_ever() {
    let Some(root) = std::env::var_os(ROOT) else { return };
    let ws = Workspace::open("w", Path::new(&root)).unwrap();
    println!("ready");
    for k in 0.. {
        let path = ws.resolve(format!("dir/f{}.txt", k % FILES)).unwrap();
        ws.update::<()>(&path, Expected::Anything, |_| Ok(body(k))).unwrap();
        let new = ws.resolve(format!("dir/new{}.txt", k % 50)).unwrap();
        ws.update::<()>(&new, Expected::Anything, |_| Ok(body(k))).unwrap();
    }
}

#[test]
fn kill_nine_leaves_old_or_new_and_no_litter() {
    let b = Box::new();
    for k in 0..FILES {
        b.put(&format!("dir/f{k}.txt"), body(k));
    }
    let mut litter = 0;
    for round in 0..60u64 {
        let mut child = myself("crash::child_that_writes_for_ever", ROOT, &b.path("")).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut seen = Vec::new();
        let mut byte = [0];
        while !seen.ends_with(b"ready") && out.read(&mut byte).unwrap() == 1 {
            seen.push(byte[0]);
        }
        std::thread::sleep(Duration::from_micros(1000 + round * 137 % 4000));
        child.kill().unwrap();
        child.wait().unwrap();
        // the next start
        let ws = Workspace::open("w", b.path("")).unwrap();
        litter += ws.remove_litter(&NEVER);
        for entry in std::fs::read_dir(b.path("dir")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!name.starts_with('.'), "litter stays: {name}");
            assert!(whole(&std::fs::read_to_string(&path).unwrap()), "{name} is a mixture");
        }
    }
    println!("{litter} temporary names swept in 60 kills");
}

/// A temporary file that is being written is not litter.
#[test]
fn work_in_progress_is_left_alone() {
    let b = Box::new();
    let name = b.path(".codegen-sandbox-tmp-1-2-3");
    let file = std::fs::File::create(&name).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(b.ws.remove_litter(&NEVER), 0);
    assert!(name.exists());
    assert_eq!(b.glob("**/*"), Vec::<String>::new());
    // Closing it would not do: a process that another test just started may hold it until it executes.
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    assert_eq!(b.ws.remove_litter(&NEVER), 1);
    assert!(!name.exists());
}
