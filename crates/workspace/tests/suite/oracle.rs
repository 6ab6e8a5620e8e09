//! The live workspace against a fresh walk, after random changes of every kind. The tests run some thousands of rounds,
//! `bench` as many as it is given.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use workspace::{
    Durability, Expected, GlobQuery, GrepQuery, LiveOptions, LiveStatus, Mode, Options, OutputMode, Workspace,
};

static NEVER: AtomicBool = AtomicBool::new(false);

/// Numbers that are the same each time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn folder(&mut self, root: &Path) -> PathBuf {
        (0..self.below(4)).fold(root.to_owned(), |path, _| path.join(format!("d{}", self.below(4))))
    }
}

const WORDS: [&str; 9] =
    ["alpha", "beta", "gamma", "delta", "omega", "Kappa", "sigma", "theta", "\u{212A}appa"];

/// A folder with a workspace in it, and two views of that: one kept live, one that walks.
struct Ground {
    dir: tempfile::TempDir,
    live: Arc<Workspace>,
    plain: Workspace,
}

/// What a run did.
pub(crate) struct Outcome {
    /// Answers that were compared.
    pub(crate) answers: usize,
    /// How the live workspace stood in the end.
    pub(crate) status: LiveStatus,
}

/// Makes random changes and compares answers; the error says which was wrong and what had been done.
pub(crate) fn run(mode: Mode, rounds: usize, seed: u64) -> Result<Outcome, String> {
    let ground = Ground::new(mode).map_err(|error| error.to_string())?;
    let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ seed);
    let mut log: Vec<String> = Vec::new();
    let mut answers = 0;
    for round in 0..rounds {
        if random.once_in(200) {
            ground.change_while_asking(&mut random, round);
            log.push(format!("{round} changes while asking"));
        }
        for _ in 0..=random.below(4) {
            log.push(format!("{round} {}", ground.change(&mut random, round)));
        }
        let old = log.len().saturating_sub(14);
        log.drain(..old);
        let failed = |wrong| format!("seed {seed}, round {round}: {wrong}\n{}", log.join("\n"));
        answers += ground.compare(&mut random, round).map_err(failed)?;
    }
    let status = ground.live.live_status().ok_or("the live workspace is gone")?;
    Ok(Outcome { answers, status })
}

impl Ground {
    fn new(mode: Mode) -> Result<Self, Box<dyn std::error::Error>> {
        let dir = tempfile::tempdir()?;
        fs::create_dir(dir.path().join("ws"))?;
        fs::create_dir(dir.path().join("links"))?;
        let open = || {
            let options = Options::default().with_durability(Durability::Rename);
            Workspace::open_with("w", dir.path().join("ws"), options)
        };
        let (live, plain) = (Arc::new(open()?), open()?);
        let options =
            LiveOptions { mode: Some(mode), sweep: Duration::from_secs(3600), ..LiveOptions::default() };
        live.go_live_now(options);
        Ok(Self { dir, live, plain })
    }

    /// Somebody else makes changes while questions are asked, whose answers nobody can foretell.
    fn change_while_asking(&self, random: &mut Random, round: usize) {
        let mut other = Random(random.0 ^ 0x5DEE_CE66);
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                for _ in 0..20 {
                    self.change(&mut other, round);
                }
            });
            while !writer.is_finished() {
                let _ = self.compare(random, round);
            }
        });
    }

    /// One change of any kind; most that make no sense simply fail.
    fn change(&self, random: &mut Random, round: usize) -> String {
        let root = self.dir.path().join("ws");
        let (from, to) = (random.folder(&root), random.folder(&root));
        let name = |random: &mut Random| format!("f{}.{}", random.below(5), random.pick(&["go", "log"]));
        let (file, other) = (from.join(name(random)), to.join(name(random)));
        let text = format!("{} {} {round}\n", random.pick(&WORDS), random.pick(&WORDS));
        let kind = random.below(29);
        let _ = match kind {
            0..=3 => fs::create_dir_all(&from).and_then(|()| fs::write(&file, &text)),
            4 => OpenOptions::new().append(true).open(&file).and_then(|mut f| f.write_all(text.as_bytes())),
            5 => fs::remove_file(&file),
            6 => fs::rename(&file, &other),
            7 if from != root => fs::rename(&from, &to),
            8 if from != root && random.once_in(3) => fs::remove_dir_all(&from),
            9 | 10 | 14..=17 => self.change_rules(random, kind, &from),
            11 => self.move_in(&to.join(format!("d{}", random.below(4))), &text),
            12 => fs::write(from.join(".t"), &text).and_then(|()| fs::rename(from.join(".t"), &file)),
            13 if from != root => self.move_out(&from),
            18 => std::os::unix::fs::symlink(&other, &file),
            19 => {
                let _ = fs::remove_file(&file);
                fs::create_dir(&file).and_then(|()| fs::write(file.join("inner.go"), &text))
            }
            20 => fs::write(&file, format!("\0\0{text}")),
            21 => self.write_through_the_workspace(&file, &root, &text),
            22 => self.link_inside(&file, &other),
            23 => self.link_outside(random, &file),
            24 => fs::write(self.dir.path().join(format!("links/{}", random.below(3))), &text),
            25 => File::options().write(true).open(&file).and_then(|file| {
                let day = Duration::from_secs(86_400 * (1 + random.below(3) as u64));
                file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + day))
            }),
            26 => fs::write(self.dir.path().join("gone/f1.go"), &text),
            27 => {
                File::options().write(true).open(&file).and_then(|file| file.set_len(random.below(9) as u64))
            }
            _ => Ok(()),
        };
        format!("{kind}: {} {}", file.display(), other.display())
    }

    fn change_rules(&self, random: &mut Random, kind: usize, folder: &Path) -> std::io::Result<()> {
        if !random.once_in(4) {
            return Ok(());
        }
        let above = self.dir.path();
        match kind {
            9 => {
                let rules = ["*.log\n", "d1/\n", "f2.go\n", "", "!*.log\n", "/d2\n.gitignore\n"];
                fs::write(folder.join(".gitignore"), random.pick(&rules))
            }
            10 => fs::remove_file(folder.join(random.pick(&[".gitignore", ".ignore"]))),
            14 => fs::write(folder.join(".ignore"), random.pick(&["*.go\n", "d3\n", "!f1.*\n"])),
            15 => fs::create_dir_all(folder.join(".git/info")).and_then(|()| {
                fs::write(folder.join(".git/info/exclude"), random.pick(&["f3*\n", "d0\n", ""]))
            }),
            16 => fs::remove_dir_all(folder.join(".git")),
            _ => match random.below(4) {
                0 => fs::create_dir_all(above.join(".git/info")).and_then(|()| {
                    fs::write(above.join(".git/info/exclude"), random.pick(&["f0*\n", "d2\n"]))
                }),
                1 => fs::remove_dir_all(above.join(".git")),
                2 => fs::write(above.join(".gitignore"), random.pick(&["*.log\n", "ws/d1\n", "!f3.log\n"])),
                _ => fs::write(above.join(".ignore"), random.pick(&["f4.*\n", "", "d3/d3\n"])),
            },
        }
    }

    fn move_in(&self, place: &Path, text: &str) -> std::io::Result<()> {
        let outside = self.dir.path().join("out");
        let _ = fs::create_dir_all(outside.join("e/d2"));
        let _ = fs::write(outside.join("e/d2/f1.go"), text);
        let moved = fs::rename(outside.join("e"), place);
        let _ = fs::remove_dir_all(outside);
        moved
    }

    /// The folder lives on outside, where nobody may notice what happens in it.
    fn move_out(&self, folder: &Path) -> std::io::Result<()> {
        let gone = self.dir.path().join("gone");
        let _ = fs::remove_dir_all(&gone);
        fs::rename(folder, gone)
    }

    fn write_through_the_workspace(&self, file: &Path, root: &Path, text: &str) -> std::io::Result<()> {
        if let Ok(relative) = file.strip_prefix(root)
            && let Ok(path) = self.live.resolve(relative)
        {
            let _ = self.live.update::<()>(&path, Expected::Anything, |_| Ok(text.as_bytes().to_vec()));
        }
        Ok(())
    }

    /// Another name inside counts from the next question on, unless its folder is ignored, as it is at least where
    /// nothing of it is found: then a sweep must come before.
    fn link_inside(&self, file: &Path, other: &Path) -> std::io::Result<()> {
        fs::hard_link(file, other)?;
        let folder = other.parent().and_then(|folder| folder.strip_prefix(self.dir.path().join("ws")).ok());
        let pattern = folder.map(|folder| folder.join("*").display().to_string()).unwrap_or_default();
        let path = self.plain.resolve(".").map_err(std::io::Error::other)?;
        let query = GlobQuery { pattern, path, limit: 1, fresh: false };
        let _ = self.live.glob(&query, &NEVER);
        if self.plain.glob(&query, &NEVER).is_ok_and(|all| all.total == 0) {
            self.live.sweep();
        }
        Ok(())
    }

    /// Another name outside: making it sends no event, so that a sweep must come before it counts.
    fn link_outside(&self, random: &mut Random, file: &Path) -> std::io::Result<()> {
        let link = self.dir.path().join(format!("links/{}", random.below(3)));
        let _ = fs::remove_file(&link);
        let linked = fs::hard_link(file, link);
        self.live.sweep();
        linked
    }

    /// Asks both; says how many answers were the same.
    fn compare(&self, random: &mut Random, round: usize) -> Result<usize, String> {
        let pattern = match random.below(5) {
            0 => random.pick(&WORDS).to_owned(),
            1 => format!("{}|{}", random.pick(&WORDS), random.pick(&WORDS)),
            2 => format!("{} [a-zA-Z]+ {round}", random.pick(&WORDS)),
            3 => r"\b\w+ma\s".to_owned(),
            _ => format!("(?i){}", random.pick(&WORDS)),
        };
        let modes = [OutputMode::Content, OutputMode::FilesWithMatches, OutputMode::Count];
        let place = if random.once_in(3) { random.pick(&["d0", "d1", "d2/d1"]) } else { "." };
        let path = self.plain.resolve(place).map_err(|error| error.to_string())?;
        let query = GrepQuery {
            mode: modes[random.below(3)],
            head_limit: if random.once_in(2) { 0 } else { 1 + random.below(6) },
            glob: random.once_in(4).then(|| random.pick(&["*.go", "!*.go", "d1/**"]).to_owned()),
            case_insensitive: random.once_in(4),
            fresh: random.once_in(20),
            ..GrepQuery::new(pattern, path.clone())
        };
        same(&format!("{query:?}"), grep(&self.live, &query), grep(&self.plain, &query))?;
        if !random.once_in(3) {
            return Ok(1);
        }
        let pattern =
            random.pick(&["**/*", "**/*.go", "*.go", "**/f[12].{go,log}", "d1/**/*.log", "{d1,d2}/*"]);
        let limit = [1, 3, 50][random.below(3)];
        let query = GlobQuery { pattern: pattern.to_owned(), path, limit, fresh: random.once_in(20) };
        same(&format!("{query:?}"), glob(&self.live, &query), glob(&self.plain, &query))?;
        Ok(2)
    }
}

fn same(query: &str, live: Vec<String>, plain: Vec<String>) -> Result<(), String> {
    if live == plain { Ok(()) } else { Err(format!("{query}\nlive  {live:#?}\nplain {plain:#?}")) }
}

fn grep(workspace: &Workspace, query: &GrepQuery) -> Vec<String> {
    let mut all = Vec::new();
    let summary = workspace.grep(query, &NEVER, &mut |hits| {
        all.push(format!("{}: {}", hits.path.display(), hits.count));
        all.extend(hits.lines.iter().map(|line| format!("{}: {}", line.number, line.text)));
        ControlFlow::Continue(())
    });
    all.push(
        summary.map_or_else(|error| error.to_string(), |summary| format!("limited {}", summary.limited)),
    );
    all
}

fn glob(workspace: &Workspace, query: &GlobQuery) -> Vec<String> {
    match workspace.glob(query, &NEVER) {
        Ok(reply) => {
            let files = reply.files.iter().map(|file| file.display().to_string());
            files.chain([format!("{} in all", reply.total)]).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}
