//! What may be the name of something, language by language.

const GO: &str = "break case chan const continue default defer else fallthrough for func go goto if import interface \
    map package range return select struct switch type var";
const RUST: &str = "as async await break const continue crate dyn else enum extern false fn for if impl in let loop \
    match mod move mut pub ref return self Self static struct super trait true type unsafe use where \
    while";
const PYTHON: &str = "False None True and as assert async await break class continue def del elif else except finally for \
    from global if import in is lambda nonlocal not or pass raise return try while with yield";
/// Members may be called so, nothing else.
const SCRIPT: &str = "break case catch class const continue debugger default delete do else enum export extends false \
    finally for function if import in instanceof new null return super switch this throw true try typeof \
    var void while with";

fn is_script(language: &str) -> bool {
    !matches!(language, "go" | "rust" | "python")
}

/// Whether the language keeps a word for itself.
pub(super) fn reserved(language: &str, name: &str) -> bool {
    let words = match language {
        "go" => GO,
        "rust" => RUST,
        "python" => PYTHON,
        _ => SCRIPT,
    };
    words.split(' ').any(|word| word == name)
}

/// Whether something can be called so; else why not.
pub(super) fn check(language: &str, name: &str) -> Result<(), String> {
    let script = is_script(language);
    let plain = match language {
        "rust" => name.strip_prefix("r#").or_else(|| name.strip_prefix('\'')).unwrap_or(name),
        _ if script => name.strip_prefix('#').unwrap_or(name),
        _ => name,
    };
    let inner =
        |c: char| c.is_alphanumeric() || c == '_' || (script && matches!(c, '$' | '\u{200c}' | '\u{200d}'));
    let begins = plain.chars().next().is_some_and(|c| inner(c) && !c.is_numeric());
    if !begins || !plain.chars().all(inner) {
        let dollar = if script { ", _ and $" } else { " and _" };
        return Err(format!(
            "new_name \"{name}\" is no {language} identifier: letters, digits{dollar}, not beginning with a digit"
        ));
    }
    if !script && reserved(language, name) {
        return Err(format!("new_name \"{name}\" is a reserved word of {language}; pass another"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_of_their_language() {
        for (language, name) in [
            ("go", "Äpfel"),
            ("rust", "r#type"),
            ("rust", "'a"),
            ("python", "_x1"),
            ("node", "$x"),
            ("node", "#p"),
        ] {
            assert_eq!(check(language, name), Ok(()), "{language} {name}");
        }
        for language in ["go", "rust", "python", "node"] {
            for name in ["", "foo bar", "1x", "a;b", "a.b", "x-y", "a\nb", "\u{2028}"] {
                assert!(check(language, name).is_err(), "{language} {name:?}");
            }
        }
        assert!(
            check("go", "func").is_err() && check("rust", "fn").is_err() && check("python", "def").is_err()
        );
        // a method may be called so
        assert!(check("node", "delete").is_ok() && reserved("node", "delete"));
        assert!(check("go", "a$").is_err());
    }
}
