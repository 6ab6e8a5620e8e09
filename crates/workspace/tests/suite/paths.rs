//! What a path may reach.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use workspace::{Expected, UpdateError};

use crate::kit::Box;

#[test]
fn relative_absolute_and_dotted_paths_inside() {
    let b = Box::new();
    b.put("src/a.txt", "A\n");
    let absolute = b.path("src/a.txt");
    for path in ["src/a.txt", "./src/a.txt", "src/../src/./a.txt", "src//a.txt", absolute.to_str().unwrap()] {
        assert_eq!(b.read(path).unwrap(), "1\tA\n", "{path}");
    }
    assert_eq!(b.ws.resolve("src/new/deep.txt").unwrap().to_string(), "src/new/deep.txt");
    assert_eq!(b.ws.resolve(".").unwrap().to_string(), ".");
}

#[test]
fn nothing_outside_is_reachable() {
    let b = Box::new();
    b.put("src/a.txt", "A\n");
    symlink(b.outside("secret.txt"), b.path("abs")).unwrap();
    symlink("../outside/secret.txt", b.path("rel")).unwrap();
    symlink("../outside", b.path("dir")).unwrap();
    symlink("dir", b.path("twice")).unwrap();
    symlink("/proc/self/cwd", b.path("proc")).unwrap();
    symlink("/proc/self/root/etc/passwd", b.path("magic")).unwrap();
    symlink("loop", b.path("loop")).unwrap();
    let outside = b.outside("secret.txt");
    for path in [
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        outside.to_str().unwrap(),
        "/etc/passwd",
        "/proc/self/environ",
        "abs",
        "rel",
        "dir/secret.txt",
        "twice/secret.txt",
        "proc/Cargo.toml",
        "magic",
        "loop",
        "",
        "src/a.txt\0",
        "src/a.txt/x",
    ] {
        let error = b.read(path).unwrap_err();
        assert!(!error.contains("SECRET"), "{path}: {error}");
        let refused =
            b.ws.resolve(path).map(|path| b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"x".into())));
        assert!(!matches!(refused, Ok(Ok(_))), "{path} was written");
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "SECRET\n");
    assert!(b.read("abs").unwrap_err().contains("abs is a symlink to"));
}

#[test]
fn symlinks_inside_are_followed_and_written_through() {
    let b = Box::new();
    b.put("real/a.txt", "A\n");
    symlink("real", b.path("folder")).unwrap();
    symlink(b.path("real/a.txt"), b.path("absolute")).unwrap();
    symlink("../folder/a.txt", b.path("real/back")).unwrap();
    symlink("real/not-yet", b.path("dangling")).unwrap();
    for path in ["folder/a.txt", "absolute", "real/back", "folder/../absolute"] {
        assert_eq!(b.read(path).unwrap(), "1\tA\n", "{path}");
        assert_eq!(b.ws.resolve(path).unwrap().to_string(), "real/a.txt");
    }
    for (path, target) in [("absolute", "real/a.txt"), ("dangling", "real/not-yet")] {
        let path = b.ws.resolve(path).unwrap();
        b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"new\n".into())).unwrap();
        assert_eq!(b.get(target), "new\n");
    }
    assert!(b.path("absolute").is_symlink() && b.path("dangling").is_symlink());
}

#[test]
fn fifos_sockets_and_devices_neither_block_nor_open() {
    let b = Box::new();
    let fifo = b.path("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    std::os::unix::net::UnixListener::bind(b.path("socket")).unwrap();
    b.put("dir/.gitignore", "x\n");
    // an ignore file that is a FIFO would stop a walk that opens it by name
    rustix::fs::mknodat(
        rustix::fs::CWD,
        b.path(".gitignore"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert!(b.read("fifo").unwrap_err().contains("a FIFO"));
    assert!(b.read("socket").is_err());
    assert!(b.read("dir").unwrap_err().contains("is a folder"));
    let path = b.ws.resolve("fifo").unwrap();
    assert!(matches!(
        b.ws.update::<()>(&path, Expected::Anything, |_| Ok(vec![])),
        Err(UpdateError::File(_))
    ));
    assert_eq!(b.grep_for("."), ["dir/.gitignore:1:x"]);
    assert_eq!(b.glob("**/*"), ["dir/.gitignore"]);
}

#[test]
fn a_hard_link_is_read_but_never_written_through() {
    let b = Box::new();
    std::fs::hard_link(b.outside("secret.txt"), b.path("hard")).unwrap();
    assert_eq!(b.read("hard").unwrap(), "1\tSECRET\n");
    let path = b.ws.resolve("hard").unwrap();
    b.ws.update::<()>(&path, Expected::Anything, |_| Ok(b"mine\n".into())).unwrap();
    assert_eq!(b.get("hard"), "mine\n");
    assert_eq!(std::fs::read_to_string(b.outside("secret.txt")).unwrap(), "SECRET\n");
}

#[test]
fn odd_names_are_shown_on_one_line_and_taken_back() {
    let b = Box::new();
    b.put("new\nline.txt", "N\n");
    let bytes = std::ffi::OsStr::from_bytes(b"bad-\xFF.txt");
    std::fs::write(b.dir.path().join("ws").join(bytes), "B\n").unwrap();
    assert_eq!(b.glob("*"), [r#""bad-\377.txt""#, r#""new\nline.txt""#]);
    assert_eq!(b.read(r#""new\nline.txt""#).unwrap(), "1\tN\n");
    assert_eq!(b.read(r#""bad-\377.txt""#).unwrap(), "1\tB\n");
    assert_eq!(b.read(Path::new(bytes)).unwrap(), "1\tB\n");
    assert_eq!(b.grep_for("[NB]"), [r#""bad-\377.txt":1:B"#, r#""new\nline.txt":1:N"#]);
}

#[test]
fn a_missing_file_names_its_neighbours() {
    let b = Box::new();
    b.put("src/server.rs", "");
    let error = b.read("src/Server.rs").unwrap_err();
    assert_eq!(error, "src/Server.rs does not exist; did you mean src/server.rs?");
}

#[test]
fn a_mount_point_is_not_part_of_the_workspace() {
    // /dev/pts, /proc and the like are mount points below / on every system
    let all = workspace::Workspace::open("root", "/").unwrap();
    let error = all.resolve("proc/self/status").unwrap_err().to_string();
    assert!(error.contains("mount point"), "{error}");
    let crossing =
        workspace::Workspace::open_with("root", "/", workspace::Options::default().crossing_mounts())
            .unwrap();
    assert!(crossing.resolve("proc/version").is_ok());
}
