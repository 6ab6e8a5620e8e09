//! Variables that look like secrets are not handed to commands.

use crate::Variables;
use std::ffi::OsStr;

/// Words of a name that mark a secret.
const WORDS: &[&str] = &[
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASS",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "APIKEY",
    "KEY",
    "AUTH",
    "AUTHORIZATION",
    "PAT",
    "COOKIE",
    "PRIVATE",
    "SIGNATURE",
    "DSN",
];

/// Addresses of the desktop session: sockets that cannot be reached from inside.
const SESSION: &[&str] =
    &["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SSH_AGENT_PID", "XAUTHORITY", "KUBECONFIG"];

/// How the values of well-known tokens begin.
const SHAPES: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "rk_live_",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "dop_v1_",
    "-----BEGIN",
];

/// Ends of words that mark a secret without a border before them: `PGPASSWORD`, `OPENAIKEY`.
const ENDS: &[&str] = &[
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASS",
    "PWD",
    "PW",
    "TOKEN",
    "SECRET",
    "CREDENTIALS",
    "APIKEY",
    "KEY",
];

/// Names that end so and mean something else, and words.
const HARMLESS_NAMES: &[&str] = &["PWD", "OLDPWD"];
const HARMLESS: &[&str] = &[
    "COMPASS",
    "BYPASS",
    "ENCOMPASS",
    "MONKEY",
    "TURKEY",
    "HOTKEY",
    "DONKEY",
    "WHISKEY",
    "HOCKEY",
    "JOCKEY",
];

/// Words that mark a secret together.
const TOGETHER: &[&str] = &["CONNECTION_STRING", "CONNECTIONSTRING", "CONN_STR"];

/// The words of a name: `_`, `-`, `.` and a capital after a small letter divide them.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let border = matches!(letter, '_' | '-' | '.');
        if border || (before.is_ascii_lowercase() && letter.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| !border) {
            word.push(letter.to_ascii_uppercase());
        }
        before = letter;
    }
    words
}

fn secret_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let marks = |word: &String| {
        let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
        WORDS.contains(&word) || (ENDS.iter().any(|end| word.ends_with(end)) && !HARMLESS.contains(&word))
    };
    let harmless = HARMLESS_NAMES.contains(&upper.as_str());
    !harmless
        && (SESSION.contains(&upper.as_str())
            || words(name).iter().any(marks)
            || TOGETHER.iter().any(|words| upper.contains(words)))
}

fn secret_value(value: &str) -> bool {
    let address_with_password = || {
        let (_, rest) = value.split_once("://")?;
        let (user, _) = rest.split('/').next()?.rsplit_once('@')?;
        user.split_once(':').map(|(_, password)| !password.is_empty())
    };
    SHAPES.iter().any(|shape| value.starts_with(shape) && value.len() >= shape.len() + 8)
        || address_with_password() == Some(true)
}

/// `variables` without those that look like secrets, and the names that were left out.
///
/// A name is judged by its words (`GITHUB_TOKEN`, `DB_PASSWORD`), a value by the shape of well-known tokens and of
/// addresses with a password. Names in `allowed` stay.
///
/// ```
/// let host = [("PATH", "/bin"), ("API_TOKEN", "x"), ("DATABASE", "postgres://me:pw@db/x"), ("DEPLOY_KEY", "y")];
/// let host = host.map(|(k, v)| (k.into(), v.into())).into_iter().collect();
/// let (passed, left_out) = sandbox::isolated::without_secrets(&host, &["DEPLOY_KEY".to_owned()]);
/// assert_eq!(passed.keys().collect::<Vec<_>>(), ["DEPLOY_KEY", "PATH"]);
/// assert_eq!(left_out, ["API_TOKEN", "DATABASE"]);
/// ```
#[must_use]
pub fn without_secrets(variables: &Variables, allowed: &[String]) -> (Variables, Vec<String>) {
    let secret = |name: &OsStr, value: &OsStr| {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        !allowed.iter().any(|a| *a == name) && (secret_name(&name) || secret_value(&value))
    };
    let mut passed = variables.clone();
    let mut left_out = Vec::new();
    passed.retain(|name, value| {
        let secret = secret(name, value);
        if secret {
            left_out.push(name.to_string_lossy().into_owned());
        }
        !secret
    });
    (passed, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_that_look_like_secrets() {
        for name in [
            "GITHUB_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "OPENAI_API_KEY",
            "db_password",
            "SSH_AUTH_SOCK",
            "SENTRY_DSN",
            "NPM_CONFIG__AUTH",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SSHPASS",
            "AZURE_STORAGE_CONNECTION_STRING",
            "LDAP_BINDPW",
            "githubToken",
            "npmAuthToken",
            "OPENAIKEY",
            "RESTIC_PASSWORD2",
        ] {
            assert!(secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "PASSENGER_APP",
            "AUTHOR",
            "PWD",
            "OLDPWD",
            "COMPASS",
            "MONKEY",
            "KEYMAP",
            "GIT_AUTHOR_NAME",
            "XDG_SESSION_TYPE",
            "PASSTHROUGH",
        ] {
            assert!(!secret_name(name), "{name}");
        }
        for value in ["ghp_0123456789abcdef", "postgres://u:p@h/db", "-----BEGIN PRIVATE KEY-----"] {
            assert!(secret_value(value), "{value}");
        }
        for value in ["/usr/bin:/bin", "https://example.com/a@b", "https://user@host/x", "sk-", "eyJ"] {
            assert!(!secret_value(value), "{value}");
        }
    }
}
