//! Every language's reader of test output. The first byte chooses the end, the second the chunk size.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verify::{End, Languages, MapFacts, Stream, TestAsk};

fuzz_target!(|data: &[u8]| {
    let [how, size, rest @ ..] = data else { return };
    let facts = MapFacts { root: "/sample".into(), scratch: "/scratch".into(), ..MapFacts::default() };
    let end = match how % 8 {
        0 => End::TimedOut,
        1 => End::Cancelled,
        2 => End::Signaled(9),
        3 => End::OutOfMemory,
        4 => End::Exited(101),
        code => End::Exited(i32::from(code) - 5),
    };
    for detector in Languages::shipped().all() {
        for plan in detector.test_cmd(&facts, &TestAsk::default()).unwrap_or_default() {
            let mut reader = detector.test_reader(&plan, &facts);
            for chunk in rest.chunks(usize::from(*size) + 1) {
                reader.feed(Stream::Stdout, chunk);
            }
            reader.feed(Stream::Report, rest);
            let mut run = reader.finish(&end, &facts);
            let _ = detector.follow_up(&facts, &plan, &mut run);
        }
    }
});
