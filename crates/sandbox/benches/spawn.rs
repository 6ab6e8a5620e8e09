//! What starting a program costs, against a bare `posix_spawn` of the same, interleaved in one run.
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark compares with the bare thing and prints"
)]
#![expect(clippy::unwrap_used, reason = "a benchmark may stop at the first fault")]

use sandbox::{
    Request, Sandbox, StartRequest, Stdio,
    direct::Direct,
    isolated::{Isolated, Network, Tier},
};
use std::{
    process::{Command, Stdio as Std},
    time::{Duration, Instant},
};
use tokio::io::AsyncReadExt as _;

const ROUNDS: usize = 300;

fn bare(command: &str, args: &[&str]) {
    let out =
        Command::new(command).args(args).stdin(Std::null()).stdout(Std::null()).stderr(Std::null()).status();
    assert!(out.unwrap().success());
}

async fn collected(sandbox: &dyn Sandbox, command: &str, args: &[&str]) {
    let response = sandbox.spawn(Request::new(command).args(args.iter().copied())).await;
    assert!(response.outcome.success(), "{}", response.outcome);
}

async fn live(sandbox: &dyn Sandbox, command: &str, args: &[&str]) {
    let request = StartRequest {
        command: command.to_owned(),
        args: args.iter().map(|a| (*a).to_owned()).collect(),
        stdio: Stdio::Merged,
        ..StartRequest::default()
    };
    let mut process = sandbox.streaming().unwrap().start(request).await.unwrap();
    let mut out = Vec::new();
    process.stdout.read_to_end(&mut out).await.unwrap();
    assert!(process.control.wait().await.success());
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn main() {
    sandbox::spawner::init().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let workspace = std::env::temp_dir().join("sandbox-bench");
    std::fs::create_dir_all(&workspace).unwrap();
    let isolated = |tier, network| -> Box<dyn Sandbox> {
        let builder = Isolated::builder("isolated").workspace(&workspace).tier(tier).network(network);
        Box::new(builder.build().unwrap())
    };
    // The one that tears network namespaces down comes last: the kernel is busy with that for a while.
    let sandboxes: [(&str, Box<dyn Sandbox>); 4] = [
        ("direct", Box::new(Direct::new("direct"))),
        ("namespaces", isolated(Tier::Namespaces, Network::Host)),
        ("landlock", isolated(Tier::Landlock, Network::Host)),
        ("namespaces, no network", isolated(Tier::Namespaces, Network::None)),
    ];
    for (command, args) in [("/bin/true", &[][..]), ("bash", &["-c", "true"])] {
        println!("{command} {}", args.join(" "));
        for (name, sandbox) in &sandboxes {
            let mut times: [Vec<Duration>; 3] = Default::default();
            runtime.block_on(async {
                for _ in 0..ROUNDS {
                    let start = Instant::now();
                    bare(command, args);
                    times[0].push(start.elapsed());
                    let start = Instant::now();
                    collected(&**sandbox, command, args).await;
                    times[1].push(start.elapsed());
                    let start = Instant::now();
                    live(&**sandbox, command, args).await;
                    times[2].push(start.elapsed());
                }
            });
            let [bare, spawned, started] = times.each_mut().map(|t| median(t));
            println!(
                "  {name:23} bare {bare:.3} ms, spawn {spawned:.3} ({:.2}x, +{:.3}), start {started:.3} ({:.2}x)",
                spawned / bare,
                spawned - bare,
                started / bare
            );
        }
    }
}
