//! Calls that are collected: a command is begun once, by the first connection that works, and is over with its last word.

use super::{
    Carried, Errand, There, UNBEGUN, from_code,
    last_word::{self, Heard, Hearing, LastWord, Listener},
    live::{self, Sweep},
    patience,
};
use crate::{
    Outcome, Process, Request, Response, Stdio,
    local::{self, Turn},
};
use std::{
    convert::Infallible,
    pin::{Pin, pin},
};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

impl Carried {
    /// Runs a command at the far side to its end.
    pub(super) async fn carry(&self, request: Request) -> Response {
        let cwd = request.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
        let errand = Errand {
            stdio: Stdio::Separate,
            stdin: if request.stdin.is_empty() { "closed" } else { "whole" },
            cwd: cwd.as_deref(),
            env: &request.env,
            command: &request.command,
            args: &request.args,
        };
        let nothing = Response::nothing;
        let mut deadline = None;
        for patience in patience() {
            let Some(turn) = local::turn(&request.cancel).await else {
                return nothing(Outcome::Cancelled);
            };
            let timeout = if request.timeout.is_zero() { self.timeout } else { request.timeout };
            let deadline = *deadline.get_or_insert_with(|| tokio::time::Instant::now() + timeout);
            let mut stop = pin!(async {
                tokio::select! {
                    biased;
                    () = request.cancel.cancelled() => Outcome::Cancelled,
                    () = tokio::time::sleep_until(deadline) => Outcome::TimedOut,
                }
            });
            let reached = tokio::select! {
                biased;
                outcome = &mut stop => return nothing(outcome),
                reached = self.reach(&errand, patience) => reached,
            };
            let there = match reached {
                Ok(Some(there)) => there,
                Ok(None) => continue,
                Err(outcome) => return nothing(outcome),
            };
            if let Some(response) = self.collect(there, &errand, &request, stop, turn).await {
                return response;
            }
        }
        nothing(self.broken(UNBEGUN.as_bytes()))
    }

    /// Has a command begin, and collects what it writes until it ends or is to be stopped; nothing when it was not begun.
    async fn collect(
        &self,
        mut there: There,
        errand: &Errand<'_>,
        request: &Request,
        mut stop: Pin<&mut (impl Future<Output = Outcome> + Send)>,
        turn: Turn,
    ) -> Option<Response> {
        // A dropped future must leave nothing at the far side either.
        let sweep = self.sweeper(&there.mark);
        let begun = tokio::select! {
            biased;
            outcome = &mut stop => Err(outcome),
            begun = self.begin(&mut there, errand) => begun,
        };
        let outcome = match begun {
            Ok(true) => {
                let (mut response, heard, ended) = gather(there, request, stop, turn).await;
                response.outcome = self.judge(&mut response, heard, ended, errand, sweep).await;
                return Some(response);
            }
            Ok(false) => {
                sweep.disarm();
                return None;
            }
            Err(outcome) => outcome,
        };
        there.client.control.kill();
        there.client.control.wait().await;
        // A sweep takes one, too.
        drop(turn);
        let mut response = Response::nothing(outcome);
        self.finish(sweep, &mut response).await;
        Some(response)
    }

    /// How a command ended of which this was heard on stdout and stderr.
    async fn judge(
        &self,
        response: &mut Response,
        heard: [Heard; 2],
        ended: Ended,
        errand: &Errand<'_>,
        sweep: Sweep,
    ) -> Outcome {
        match (heard, ended) {
            ([Heard::Word(_), Heard::Word(word)], _) => {
                sweep.disarm();
                if word == LastWord::Missing {
                    // Only the complaint about it.
                    response.stderr.clear();
                }
                self.outcome(word, errand)
            }
            (_, Ended::Stopped(outcome)) => {
                self.finish(sweep, response).await;
                outcome
            }
            ([_, Heard::Word(_)], _) => {
                sweep.disarm();
                self.broken(b"the connection lost what the program wrote last")
            }
            (_, ended) => {
                self.finish(sweep, response).await;
                let said = response.stderr.trim_ascii();
                let ended = match ended {
                    Ended::Client(outcome) => outcome.to_string(),
                    _ => String::new(),
                };
                self.broken(if said.is_empty() { ended.as_bytes() } else { said })
            }
        }
    }

    /// Ends what a call left, or says that it could not.
    async fn finish(&self, sweep: Sweep, response: &mut Response) {
        if !sweep.finish().await {
            response.notes.push(live::unended(&self.carrier.place()));
        }
    }

    fn outcome(&self, word: LastWord, errand: &Errand<'_>) -> Outcome {
        match word {
            LastWord::Code(code) => from_code(code),
            LastWord::Missing => Outcome::NotFound { command: errand.command.to_owned() },
            LastWord::Cwd => {
                let cwd = errand.cwd.or(self.carrier.workdir()).unwrap_or_default();
                Outcome::Refused { why: format!("{cwd} is no folder in {}", self.carrier.place()) }
            }
        }
    }
}

/// Why no more is collected of a call.
enum Ended {
    /// The script has had its say.
    Said,
    Client(Outcome),
    Stopped(Outcome),
}

/// Collects what a command writes until its script has said how it ended, its client ends, or it is to be stopped; also
/// what was heard on stdout and stderr.
async fn gather(
    there: There,
    request: &Request,
    mut stop: Pin<&mut (impl Future<Output = Outcome> + Send)>,
    turn: Turn,
) -> (Response, [Heard; 2], Ended) {
    let There { client: Process { stdin, stdout, stderr, control }, key, .. } = there;
    let (stdout, out) = Listener::new(stdout, &key);
    let (stderr, err) = Listener::new(stderr.unwrap_or_else(|| Box::new(tokio::io::empty())), &key);
    let hearings = [out, err];
    let end = async {
        tokio::select! {
            biased;
            () = last_word::said(&hearings) => Ended::Said,
            outcome = control.wait() => Ended::Client(outcome),
            outcome = stop.as_mut() => {
                control.kill();
                control.wait().await;
                Ended::Stopped(outcome)
            }
            never = feed(stdin, &request.stdin) => match never {},
        }
    };
    let limit = request.capture_limit;
    let (ended, out, err) = tokio::join!(end, local::collect(stdout, limit), local::collect(stderr, limit));
    let heard = hearings.each_ref().map(Hearing::now);
    if let Ended::Said = ended {
        let leave = tokio::spawn(async move {
            live::end_of(&*control, &hearings).await;
            drop(turn);
        });
        // On a busy node the last of those whom the sweep has killed lets go of what it held a moment after the last word,
        // before the client leaves. Who has no time for that need not wait.
        tokio::select! {
            _ = leave => {}
            _ = stop => {}
        }
    }
    let (omitted, outcome) = (out.1 + err.1, Outcome::Cancelled);
    (Response { stdout: out.0, stderr: err.0, omitted, outcome, notes: Vec::new() }, heard, ended)
}

/// Writes all of stdin, as far as it is wanted, for as long as somebody waits.
async fn feed(stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>, data: &[u8]) -> Infallible {
    if let Some(mut stdin) = stdin {
        if data.is_empty() {
            // The script waits for its end.
            std::future::pending::<()>().await;
        }
        // A program that closes its stdin early has had enough: no failure.
        let _ = stdin.write_all(data).await;
        let _ = stdin.flush().await;
    }
    std::future::pending().await
}
