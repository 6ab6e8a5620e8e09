//! One zygote and the pool of its workers, on the server's side.

use super::{
    denial,
    git::{Checkout, Repository},
    places::Temporary,
    plan::{Network, Plan, Tier},
    profile::Profile,
    restore::{Baseline, Snapshot, Turn},
};
use crate::{
    Outcome,
    cgroup::{self, Hierarchy},
    env::Environment,
    local::{Local, Observer},
    spawner,
    wire::{self, Report, Run},
    worker::{Pool, Source, Worker},
};
use futures_util::future::BoxFuture;
use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// How long the whole set-up may take before the tier counts as unusable.
const SET_UP: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// More repositories than this are not named in one result.
const MOST_UNGUARDED: usize = 3;

/// A set-up that was tried out.
pub(crate) struct Session {
    pub(crate) plan: Plan,
    zygote: Arc<Zygote>,
    /// Whether a control group enforces the memory cap.
    pub(crate) grouped: bool,
    /// Who showed that it works, for the first call.
    tried: Option<Worker>,
}

impl Session {
    /// Sets everything up and shows that it works by running `true` in it. What takes the place of `before` goes on in
    /// its network and with its semaphores, so that a server started there answers here.
    pub(crate) fn open(plan: Plan, tmp: &Arc<Temporary>, before: Option<&Force>) -> io::Result<Self> {
        cgroup::sweep();
        let joined = before.filter(|before| before.alive()).and_then(|before| before.zygote.process.as_ref());
        let zygote = match joined.map(|process| Zygote::open(&plan, tmp, Some(process))) {
            Some(Ok(zygote)) => zygote,
            // It may have ended this very moment.
            Some(Err(_)) | None => Zygote::open(&plan, tmp, None)?,
        };
        let (zygote, tried) = zygote.tried_out()?;
        Ok(Self { plan, grouped: zygote.groups.is_some(), zygote: Arc::new(zygote), tried })
    }
}

/// A session with everything that calls need.
pub(crate) struct Force {
    zygote: Arc<Zygote>,
    rules: Arc<Rules>,
    local: Local,
}

impl Force {
    pub(crate) fn new(
        session: Session,
        profile: Arc<Profile>,
        baseline: Arc<Baseline>,
        environment: Environment,
        cwd: Option<PathBuf>,
        timeout: Duration,
    ) -> Self {
        let Session { plan, zygote, grouped, tried } = session;
        let by = match (plan.caps.memory, grouped) {
            (None, _) => "",
            (Some(_), true) => ", memory capped by a control group",
            (Some(_), false) => ", memory capped by a watchdog",
        };
        let summary = format!("isolation: {}, network {}{by}", plan.tier, plan.network.name());
        let memory = plan.caps.memory;
        let checkouts = profile.checkouts();
        let rules = Arc::new(Rules { plan, profile, checkouts, baseline, summary });
        let local = Local {
            pool: Pool::with(zygote.clone(), tried),
            environment,
            cwd,
            timeout,
            memory,
            observer: Some(rules.clone()),
            stdin: false,
        };
        Self { zygote, rules, local }
    }

    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.rules.plan
    }

    pub(crate) fn summary(&self) -> &str {
        &self.rules.summary
    }

    /// Whether the zygote still is there.
    pub(crate) fn alive(&self) -> bool {
        let mut wanted = [PollFd::new(&self.zygote.socket, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // It never speaks after its introduction, so whatever there is to read is its end.
        rustix::event::poll(&mut wanted, Some(&now)).is_ok_and(|n| n == 0)
    }
}

/// What is remarked about calls.
struct Rules {
    plan: Plan,
    profile: Arc<Profile>,
    checkouts: Vec<Checkout>,
    baseline: Arc<Baseline>,
    summary: String,
}

impl Rules {
    fn watch(&self) -> Option<Turn> {
        let absent = &self.plan.absent;
        if self.plan.tier == Tier::Namespaces && absent.is_empty() {
            return None;
        }
        Some(self.baseline.begin(|| {
            let repositories = self.checkouts.iter().filter(|_| self.plan.tier == Tier::Landlock);
            let start_up = absent.first().and_then(|first| first.parent());
            let start_up = start_up.map(|folder| Snapshot::take(absent.clone(), None, folder));
            let repositories =
                repositories.filter_map(Repository::of).map(|repository| repository.snapshot());
            repositories.chain(start_up).collect()
        }))
    }
}

fn new_repository(folder: &Path) -> String {
    format!(
        "new in the workspace: the repository {}; git on the host runs what its configuration and hooks say, also from the \
         repository around it when that lists it: look at them before you use git there",
        folder.display()
    )
}

impl Observer for Rules {
    /// Where git cannot be frozen, it is put back; and what is not there cannot be frozen in any tier. Repositories that
    /// are new are named.
    fn begin(&self) -> Box<dyn FnOnce() -> Vec<String> + Send> {
        let turn = self.watch();
        let (profile, began) = (self.profile.clone(), Instant::now());
        Box::new(move || {
            let mut remarks = turn.map(Turn::finish).unwrap_or_default();
            let new = profile.new_repositories(began.elapsed());
            remarks.extend(new.iter().take(MOST_UNGUARDED).map(|folder| new_repository(folder)));
            let more = new.len().saturating_sub(MOST_UNGUARDED);
            remarks.extend((more > 0).then(|| format!("{more} more repositories are new in the workspace")));
            remarks
        })
    }

    fn remarks(&self, outcome: &Outcome, text: &[u8]) -> Vec<String> {
        let mut remarks = vec![self.summary.clone()];
        remarks.extend(self.plan.unguarded.iter().take(MOST_UNGUARDED).cloned());
        if !outcome.success() {
            let mut workspaces: Vec<PathBuf> =
                self.checkouts.iter().map(|checkout| checkout.workspace.clone()).collect();
            workspaces.dedup();
            let by_the_end = denial::explain_end(outcome, &self.plan);
            let mut by_the_text = denial::explain(&String::from_utf8_lossy(text), &self.plan, &workspaces);
            by_the_text.retain(|remark| Some(remark) != by_the_end.as_ref());
            remarks.extend(by_the_end.into_iter().chain(by_the_text));
        }
        remarks
    }
}

/// The process that makes this sandbox's workers.
struct Zygote {
    socket: OwnedFd,
    /// The process itself, when it has namespaces of its own.
    process: Option<OwnedFd>,
    /// Whoever runs below it needs it.
    _tmp: Arc<Temporary>,
    groups: Option<(Hierarchy, u64)>,
    reusable: bool,
}

impl Zygote {
    fn open(plan: &Plan, tmp: &Arc<Temporary>, join: Option<&OwnedFd>) -> io::Result<Self> {
        let socket = spawner::new_zygote(plan, join)?;
        let (_, process) = introduced(&socket)?;
        let groups = plan.caps.memory.and_then(|cap| Some((Hierarchy::find()?, cap)));
        if let Some((hierarchy, _)) = &groups {
            hierarchy.sweep();
        }
        // Every call has a loopback of its own then.
        let reusable = plan.network != Network::None;
        Ok(Self { socket, process, _tmp: tmp.clone(), groups, reusable })
    }

    /// Shows that it works, with groups or else without: being allowed to make a group is not being allowed to put a
    /// process into it. The worker that showed it can serve, if nothing is wrong with it.
    fn tried_out(mut self) -> io::Result<(Self, Option<Worker>)> {
        let tried = match self.try_out() {
            Err(_) if self.groups.is_some() => {
                self.groups = None;
                self.try_out()?
            }
            tried => tried?,
        };
        Ok((self, tried))
    }

    fn begin(&self) -> io::Result<(Worker, OwnedFd, Option<OwnedFd>)> {
        let (ours, theirs) = wire::socket_pair()?;
        let group = self.groups.as_ref().map(|(hierarchy, cap)| hierarchy.make(*cap)).transpose()?;
        let members = group.as_ref().map(cgroup::Group::members).transpose()?;
        Ok((Worker { socket: ours, group, process: None }, theirs, members))
    }

    /// `Ok(false)`: its queue is full for a moment.
    fn ask(&self, theirs: &OwnedFd, members: Option<&OwnedFd>) -> io::Result<bool> {
        let fds: Vec<_> = [theirs].into_iter().chain(members).map(|fd| fd.as_fd()).collect();
        match wire::send(&self.socket, &[wire::MAKE_WORKER], &fds) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn try_out(&self) -> io::Result<Option<Worker>> {
        let (mut worker, theirs, members) = self.begin()?;
        self.ask(&theirs, members.as_ref())?;
        drop(theirs);
        let run = Run {
            command: "/bin/true".as_ref(),
            args: &[],
            env: &[],
            cwd: None,
            stdin: false,
            terminal: false,
            announce: false,
        };
        let (packet, _) = run.encode().map_err(io::Error::other)?;
        let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let (unfrozen, process) = introduced(&worker.socket)?;
        worker.process = process;
        wire::send(&worker.socket, &packet, &[null.as_fd(), null.as_fd()])?;
        match next_report(&worker.socket)?.0 {
            Report::Ended { status: 0, .. } => Ok(unfrozen.is_empty().then_some(worker)),
            other => Err(io::Error::other(format!("`true` did not run inside: {other:?}"))),
        }
    }
}

/// Waits for a new process to say that it is ready, and what it left undone; it may send itself along.
fn introduced(socket: &OwnedFd) -> io::Result<(String, Option<OwnedFd>)> {
    match next_report(socket)? {
        (Report::Ready(unfrozen), mut fds) => Ok((unfrozen, fds.pop())),
        (Report::Broken(why), _) => Err(io::Error::other(why)),
        (other, _) => Err(io::Error::other(format!("unexpected {other:?}"))),
    }
}

fn next_report(socket: &OwnedFd) -> io::Result<(Report, Vec<OwnedFd>)> {
    if rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&SET_UP))? == 0 {
        return Err(io::Error::other("the set-up does not come to an end"));
    }
    let mut packet = [0; wire::REPORT];
    let (n, fds) = wire::receive(socket, &mut packet)?;
    let report = Report::decode(&packet[..n]);
    Ok((report.ok_or_else(|| io::Error::other("the process ended during its set-up"))?, fds))
}

impl Source for Arc<Zygote> {
    fn new_worker(&self) -> BoxFuture<'_, io::Result<Worker>> {
        Box::pin(async {
            let (worker, theirs, members) = self.begin()?;
            while !self.ask(&theirs, members.as_ref())? {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(worker)
        })
    }

    fn reusable(&self) -> bool {
        self.reusable
    }
}
