//! Words of identifiers and of prose.

/// Longer words are not words.
const LONGEST: usize = 40;
/// Characters of a whole name that tell it from others.
const WHOLE: usize = 64;

/// A name as a whole, however it is written: a word that no other word is.
pub(crate) fn whole(name: &str) -> String {
    let plain = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    ['='].into_iter().chain(plain.take(WHOLE)).collect()
}

/// Calls `each` with every word of `text`, in lower case: split at everything that is neither letter nor digit and at
/// the humps of camelCase; a run of capitals is one word up to the last of them. Single letters are no words.
pub(crate) fn split(text: &str, buffer: &mut String, mut each: impl FnMut(&str)) {
    buffer.clear();
    let mut flush = |buffer: &mut String| {
        if buffer.len() > 1 && buffer.len() <= LONGEST {
            each(buffer);
        }
        buffer.clear();
    };
    let mut chars = text.chars().peekable();
    let mut previous = ' ';
    while let Some(c) = chars.next() {
        if !c.is_alphanumeric() {
            flush(buffer);
        } else {
            let hump = c.is_uppercase() && (previous.is_lowercase() || previous.is_numeric());
            let tail = c.is_uppercase()
                && previous.is_uppercase()
                && chars.peek().is_some_and(|next| next.is_lowercase());
            if hump || tail {
                flush(buffer);
            }
            if c.is_ascii() { buffer.push(c.to_ascii_lowercase()) } else { buffer.extend(c.to_lowercase()) }
        }
        previous = c;
    }
    flush(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        split(text, &mut String::new(), |word| all.push(word.to_owned()));
        all
    }

    #[test]
    fn identifiers_fall_apart() {
        assert_eq!(words("parseHTTPRequest"), ["parse", "http", "request"]);
        assert_eq!(words("snake_case-kebab.dot"), ["snake", "case", "kebab", "dot"]);
        assert_eq!(words("utf8ToÄpfel X a"), ["utf8", "to", "äpfel"]);
        assert_eq!(words("HTTP"), ["http"]);
        assert_eq!(words("SCREAMING_CASE"), ["screaming", "case"]);
    }
}
