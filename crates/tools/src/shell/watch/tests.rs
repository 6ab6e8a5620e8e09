use super::*;

fn watch(errors: Option<&[&str]>, ready: Option<&str>, idle: Option<Duration>) -> Watch {
    let errors = errors.map(|errors| errors.iter().map(|pattern| (*pattern).to_owned()).collect());
    let patterns = Patterns::new(errors, ready.map(str::to_owned)).unwrap();
    Watch::new("sh1".to_owned(), patterns, idle, Notices::default(), false)
}

fn hear(watch: &Watch, stderr: bool, text: &str, pending: &str) {
    let (text, pending) = (text.to_owned(), pending.to_owned());
    watch.hear(stderr, &Heard { text, pending, ..Heard::default() });
}

/// Events without their times.
fn events(watch: &Watch) -> Vec<String> {
    let text = |event: Event| {
        let text = event.to_string();
        let (id, rest) = text.split_once(' ').unwrap();
        format!("{id} {}", rest.split_once("  ").unwrap().1)
    };
    watch.since(0).events.into_iter().map(text).collect()
}

#[test]
fn lines_are_matched_whole_and_only_on_stderr() {
    let watch = watch(None, None, None);
    hear(&watch, true, "Err", "");
    hear(&watch, true, "or: one\nfine\nan uncaught two\n", "");
    hear(&watch, false, "Error: on stdout\n", "");
    hear(&watch, true, "panic: at the end", "");
    watch.end(2);
    assert_eq!(
        events(&watch),
        [
            "[1] started",
            "[2] error (matched \"^Error:\")  Error: one",
            "[3] error (matched \"\\buncaught\\b\")  an uncaught two",
            "[4] error (matched \"^panic:\")  panic: at the end",
            "[5] exited  exit=2",
        ]
    );
}

#[test]
fn a_progress_bar_hides_nothing() {
    let watch = watch(Some(&["^Error:", "^100%"]), Some("^listening"), None);
    for n in 0..2000 {
        hear(&watch, true, &format!("{n}%\r"), "");
    }
    hear(&watch, true, "   \rError: it broke\r\n100%\r101%\n", "");
    let bar: String = (0..2000).map(|n| format!("{n}%\r")).collect();
    hear(&watch, false, "", &format!("{bar}listen"));
    assert_eq!(events(&watch), ["[1] started", "[2] error (matched \"^Error:\")  Error: it broke"]);
    hear(&watch, false, "", &format!("{bar}listening\r"));
    assert_eq!(events(&watch)[2], "[3] ready");
}

#[test]
fn an_empty_list_matches_nothing() {
    let watch = watch(Some(&[]), None, None);
    hear(&watch, true, "Error: one\n", "");
    assert_eq!(events(&watch), ["[1] started"]);
}

#[test]
fn ready_comes_once_from_either_stream_even_without_an_end_of_line() {
    let watch = watch(None, Some("listening on \\d+"), None);
    hear(&watch, false, "", "listening on ");
    assert_eq!(events(&watch).len(), 1);
    hear(&watch, false, "", "listening on 80");
    hear(&watch, false, "listening on 80\n", "");
    assert_eq!(events(&watch), ["[1] started", "[2] ready"]);
}

#[test]
fn a_flood_keeps_the_latest_and_counts_the_rest() {
    let watch = watch(None, None, None);
    for n in 0..5000 {
        hear(&watch, true, &format!("Error: {n}\n"), "");
    }
    let since = watch.since(0);
    assert_eq!((since.events.len(), since.dropped), (MAX_EVENTS, 5001 - MAX_EVENTS as u64));
    assert!(since.events.last().unwrap().to_string().ends_with("  Error: 4999"));
    assert_eq!(watch.since(5000).dropped, 0);
    assert_eq!(watch.since(5000).events.len(), 1);
}

#[test]
fn endless_lines_cost_nothing() {
    let watch = watch(Some(&["x$"]), None, None);
    for _ in 0..1000 {
        hear(&watch, true, &"x".repeat(10_000), "");
    }
    assert!(watch.lines().open[1].capacity() < 4 * MAX_LINE);
    hear(&watch, true, "\n", "");
    assert!(events(&watch)[1].len() < 600);
    assert!(events(&watch)[1].ends_with("x… (BashOutput has more)"), "{:?}", events(&watch));
}

#[test]
fn a_pattern_that_takes_long_is_not_matched_for_ever() {
    let watch = watch(Some(&["^Error:", "[01]*1[01]{5000}x"]), Some("(?:0?){3000}y"), None);
    let line = format!("{}\n", "01".repeat(3000));
    let begin = busy();
    for _ in 0..2000 {
        hear(&watch, true, &line, "");
    }
    let took = busy() - begin;
    assert!(took < Duration::from_secs(10), "{took:?}");
    let unmatched = watch.since(0).unmatched;
    assert!(unmatched > 1000, "{unmatched}");
    // Ordinary ones never pay for that.
    let watch = self::watch(None, Some("listening on \\d+"), None);
    for _ in 0..2000 {
        hear(&watch, true, &line, "");
    }
    assert_eq!(watch.since(0).unmatched, 0);
}

#[test]
fn bad_patterns_are_named() {
    let error = |errors: Vec<String>, ready: Option<&str>| {
        Patterns::new(Some(errors), ready.map(str::to_owned)).err().unwrap().to_string()
    };
    assert!(
        error(vec!["ok".into(), "(".into()], None).starts_with("watch_process: `error_patterns` is no reg")
    );
    assert!(error(vec!["a".into(); 33], None).contains("at most 32 patterns, got 33"));
    assert!(error(vec!["a".repeat(2000)], None).contains("shorter than 1000 bytes"));
    assert!(error(vec![r"\w{1000}{1000}".into()], None).contains("error_patterns"));
    assert!(error(vec![], Some("[")).starts_with("watch_process: `ready_pattern`"));
}

#[tokio::test(start_paused = true)]
async fn each_silence_is_noted_once() {
    let watch = watch(None, None, Some(Duration::from_secs(10)));
    let story = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        hear(&watch, false, "busy\n", "");
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!(events(&watch).len(), 1);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(events(&watch), ["[1] started", "[2] idle_timeout"]);
        hear(&watch, true, "again\n", "");
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(events(&watch).len(), 3);
    };
    tokio::select! {
        () = watch.mind() => {}
        () = story => {}
    }
}

#[tokio::test(start_paused = true)]
async fn what_matters_is_pushed_at_once_and_a_burst_ends_with_its_last_line() {
    let watch = watch(None, Some("listening"), Some(Duration::from_secs(10)));
    let mut notices = watch.notices.subscribe();
    let mut next = async || notices.recv().await.unwrap().text.split_once("  ").unwrap().1.to_owned();
    let story = async {
        hear(&watch, true, "Error: one\nError: two\nlistening\n", "");
        assert!(next().await.ends_with("Error: one"), "the start begins no pause");
        assert!(next().await.ends_with("Error: two"));
        assert_eq!(next().await, "ready");
        for n in 3..6 {
            hear(&watch, true, &format!("Error: {n}\n"), "");
        }
        let told = next().await;
        assert_eq!(told, "error (matched \"^Error:\")  Error: 5 (2 events before it were not pushed)");
        hear(&watch, true, "Error: six\n", "");
        assert!(next().await.ends_with("Error: six"));
        assert_eq!(next().await, "idle_timeout");
    };
    tokio::select! {
        () = watch.mind() => {}
        () = story => {}
    }
}

#[test]
fn the_error_that_ended_it_is_pushed_before_the_end_and_a_flood_stays_short() {
    for (errors, told) in [
        (1, &["Error: 0", "exited  exit=1"][..]),
        (2, &["Error: 0", "Error: 1", "exited  exit=1"]),
        (500, &["Error: 0", "Error: 499 (498 events before it were not pushed)", "exited  exit=1"]),
    ] {
        let watch = watch(None, None, None);
        let mut notices = watch.notices.subscribe();
        for n in 0..errors {
            // However long that takes: no pause is over yet.
            let mut log = watch.lock();
            log.pushed = log.pushed.map(|_| Instant::now());
            drop(log);
            hear(&watch, true, &format!("Error: {n}\n"), "");
        }
        watch.end(1);
        for expected in told {
            let text = notices.try_recv().unwrap().text;
            assert!(text.ends_with(expected), "{text}, not {expected}");
        }
        assert!(notices.try_recv().is_err(), "{errors}");
    }
}

#[test]
fn a_line_that_waits_for_the_next_one_is_looked_at_once() {
    let watch = watch(None, Some("ready$"), None);
    let heard = |text: &str, lines: &str| {
        let (text, lines) = (text.to_owned(), lines.to_owned());
        watch.hear(true, &Heard { text, pending: lines.clone(), lines });
    };
    heard("", "Error: one\n");
    heard("", "Error: one\nError: tw\n");
    assert_eq!(events(&watch)[1..].len(), 2, "{:?}", events(&watch));
    // What was kept back of its end is there now.
    heard("Error: one\nError: two\n", "ready\n");
    heard("ready\nError: [REDACTED]\n", "");
    let told = ["Error: one", "Error: tw", "ready", "Error: [REDACTED]"];
    for (event, told) in events(&watch)[1..].iter().zip(told) {
        assert!(event.ends_with(told), "{event}, not {told}");
    }
    assert_eq!(events(&watch).len(), 5, "{:?}", events(&watch));
    // What was no error without its end may be one with it.
    heard("", "Err\n");
    heard("Error: three\n", "");
    assert!(events(&watch)[5].ends_with("Error: three"));
}

#[test]
fn a_line_that_may_be_withheld_is_not_pushed() {
    let watch = Watch { reticent: true, ..watch(None, None, None) };
    let mut notices = watch.notices.subscribe();
    hear(&watch, true, "Error: CONFIDENTIAL\n", "");
    let told = notices.try_recv().unwrap().text;
    assert!(told.contains("error (matched") && !told.contains("CONFIDENTIAL"), "{told}");
    assert!(events(&watch)[1].ends_with("CONFIDENTIAL"));
}
