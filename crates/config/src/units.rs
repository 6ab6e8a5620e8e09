//! Sizes and durations as people write them.

use std::time::Duration;

/// Reads `64MiB`, `2GB`, `512k` or a plain number of bytes.
///
/// # Errors
/// What is wrong with the text, in words.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("b", 1),
        ("k", 1 << 10),
        ("kib", 1 << 10),
        ("kb", 1_000),
        ("m", 1 << 20),
        ("mib", 1 << 20),
        ("mb", 1_000_000),
        ("g", 1 << 30),
        ("gib", 1 << 30),
        ("gb", 1_000_000_000),
        ("t", 1 << 40),
        ("tib", 1 << 40),
        ("tb", 1_000_000_000_000),
    ];
    let bad = || format!("\"{text}\" is not a size; write for example 64MiB, 2GB or a number of bytes");
    let (number, unit) = split(text).ok_or_else(bad)?;
    let (_, factor) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).ok_or_else(bad)?;
    number.checked_mul(*factor).ok_or_else(bad)
}

/// Reads `90s`, `5m`, `1h`, `7d`, `250ms` or a plain number of seconds.
///
/// # Errors
/// What is wrong with the text, in words.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad =
        || format!("\"{text}\" is not a duration; write for example 30s, 5m, 1h, 7d or a number of seconds");
    let (number, unit) = split(text).ok_or_else(bad)?;
    let seconds = match unit {
        "ms" => return Ok(Duration::from_millis(number)),
        "" | "s" => Some(number),
        "m" | "min" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        "d" => number.checked_mul(24 * 3600),
        _ => None,
    };
    seconds.map(Duration::from_secs).ok_or_else(bad)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written() {
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("2 GB"), Ok(2_000_000_000));
        assert_eq!(size("100"), Ok(100));
        assert!(size("MiB").unwrap_err().contains("\"MiB\" is not a size"));
        assert!(size("3 parsecs").is_err());
        assert!(size("99999999999TiB").is_err());
    }

    #[test]
    fn durations_are_read_as_written() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 24 * 3600)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("soon").unwrap_err().contains("write for example 30s"));
    }
}
