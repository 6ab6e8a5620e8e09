//! The formats that runners of many languages share: TAP and JUnit XML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verify::{End, MapFacts, Stream, TestReader, UnknownReader};

fuzz_target!(|data: &[u8]| {
    let mut reader: Box<dyn TestReader> = Box::new(UnknownReader::new("make test"));
    reader.feed(Stream::Stdout, data);
    let _ = reader.finish(&End::Exited(0), &MapFacts::default());
    let _ = verify::junit::read(data);
});
