//! `${VAR}` in the values of a file.

/// Stand in for `$`, `{` and `}` of a variable while YAML is read, a character for a character so that
/// columns stay what they are. No text that people write holds them.
const MASKS: [(char, char); 3] = [('$', '\u{E0F0}'), ('{', '\u{E0F1}'), ('}', '\u{E0F2}')];

/// `text` with the braces of `${…}` hidden from YAML.
pub(super) fn mask(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let Some(end) = rest[at..].find(['}', '\n']).filter(|end| rest[at + end..].starts_with('}')) else {
            out.push_str(&rest[..at + 2]);
            rest = &rest[at + 2..];
            continue;
        };
        out.push_str(&rest[..at]);
        out.extend([MASKS[0].1, MASKS[1].1]);
        out.push_str(&rest[at + 2..at + end]);
        out.push(MASKS[2].1);
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    out
}

/// What [`mask`] hid, as it was.
pub(super) fn unmask(text: &str) -> String {
    MASKS.iter().fold(text.to_owned(), |text, (plain, masked)| text.replace(*masked, &plain.to_string()))
}

/// `text` with `${NAME}` and `${NAME:-otherwise}` replaced by what `lookup` says; `$${` stays `${`.
///
/// # Errors
/// A name that is not set and has no alternative, or a brace that is never closed.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end = inner.find('}').ok_or_else(|| format!("\"{}\" has no closing }}", &rest[at..]))?;
        let (name, otherwise) = match inner[..end].split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (&inner[..end], None),
        };
        let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !valid {
            return Err(format!(
                "\"${{{name}}}\" is not the name of a variable; write $${{ for a literal ${{"
            ));
        }
        let value = lookup(name).filter(|value| !value.is_empty()).or_else(|| otherwise.map(str::to_owned));
        out.push_str(&value.ok_or_else(|| {
            format!("the variable {name} is not set; set it, or write ${{{name}:-something}}")
        })?);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, String> {
        expand(text, &|name| (name == "POD").then(|| "web-1".to_owned()))
    }

    #[test]
    fn variables_are_replaced() {
        assert_eq!(with("x-${POD}-y").as_deref(), Ok("x-web-1-y"));
        assert_eq!(with("${NONE:-a:b}").as_deref(), Ok("a:b"));
        assert_eq!(with("$${POD} $5 plain").as_deref(), Ok("${POD} $5 plain"));
    }

    #[test]
    fn what_cannot_be_replaced_is_named() {
        assert!(with("${NONE}").unwrap_err().contains("NONE is not set"));
        assert!(with("${POD").unwrap_err().contains("no closing"));
        assert!(with("${a b}").unwrap_err().contains("not the name of a variable"));
    }
}
