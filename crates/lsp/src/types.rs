//! The little of the protocol that is used, and readers that take every shape servers send.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, path::PathBuf};

/// A place in a text as a server counts: line from 0, and units of the agreed encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// From 0.
    pub line: u32,
    /// From 0.
    pub character: u32,
}

/// From a place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Range {
    /// The first.
    pub start: Position,
    /// One past the last.
    pub end: Position,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub range: Range,
}

/// A replacement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TextEdit {
    /// What goes.
    pub range: Range,
    /// What comes.
    pub new_text: String,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does not compile.
    Error,
    /// Something to look at.
    Warning,
    /// Worth knowing.
    Information,
    /// A suggestion.
    Hint,
}

impl Severity {
    /// In words.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Information => "info",
            Self::Hint => "hint",
        }
    }

    fn numbered(number: Option<u64>) -> Self {
        match number {
            Some(2) => Self::Warning,
            Some(3) => Self::Information,
            Some(4) => Self::Hint,
            _ => Self::Error,
        }
    }
}

/// What a server says about a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub range: Range,
    /// How bad.
    pub severity: Severity,
    /// The rule, or empty.
    pub code: String,
    /// What.
    pub message: String,
}

/// What became of a file outside the server's documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Created,
    /// It holds something else.
    Changed,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Created => 1,
            Self::Changed => 2,
            Self::Deleted => 3,
        }
    }
}

/// What a symbol is, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct SymbolKind(u8);

impl SymbolKind {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        const WORDS: [&str; 26] = [
            "file",
            "module",
            "namespace",
            "package",
            "class",
            "method",
            "property",
            "field",
            "constructor",
            "enum",
            "interface",
            "function",
            "variable",
            "constant",
            "string",
            "number",
            "boolean",
            "array",
            "object",
            "key",
            "null",
            "member",
            "struct",
            "event",
            "operator",
            "type parameter",
        ];
        WORDS.get(usize::from(self.0).wrapping_sub(1)).copied().unwrap_or("symbol")
    }
}

/// A symbol of a file, with those inside it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DocumentSymbol {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SymbolKind,
    /// All of it.
    pub range: Range,
    /// Its name's place.
    pub selection_range: Range,
    /// What is in it.
    #[serde(default)]
    pub children: Option<Vec<DocumentSymbol>>,
}

/// A symbol of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SymbolKind,
    /// What it is in, or empty.
    pub container: String,
    /// Where.
    pub location: Location,
}

/// One function of a call hierarchy, kept as it came so that it can be sent back.
#[derive(Debug, Clone, PartialEq)]
pub struct CallItem {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: SymbolKind,
    /// Its name's place.
    pub location: Location,
    /// As the server sent it.
    pub raw: Value,
}

/// A caller, and where it calls.
pub type IncomingCall = (CallItem, Vec<Range>);
/// Somebody called, and where.
pub type OutgoingCall = (CallItem, Vec<Range>);

fn path(value: &Value) -> Option<PathBuf> {
    crate::from_uri(value.as_str()?)
}

fn range(value: &Value) -> Option<Range> {
    Range::deserialize(value).ok()
}

/// One place, several, or links to several.
#[must_use]
pub fn locations(answer: &Value) -> Vec<Location> {
    let one = |value: &Value| {
        let linked = value.get("targetUri").and_then(path).zip(value.get("targetSelectionRange"));
        let plain = || value.get("uri").and_then(path).zip(value.get("range"));
        let (path, at) = linked.or_else(plain)?;
        Some(Location { path, range: range(at)? })
    };
    match answer {
        Value::Array(all) => all.iter().filter_map(one).collect(),
        Value::Object(_) => one(answer).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The text of a hover, whichever of the four shapes it has.
#[must_use]
pub fn hover(answer: &Value) -> String {
    fn text(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            Value::Array(parts) => {
                parts.iter().map(text).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
            }
            Value::Object(marked) => {
                let value = marked.get("value").and_then(Value::as_str).unwrap_or_default();
                match marked.get("language").and_then(Value::as_str) {
                    Some(language) => format!("```{language}\n{value}\n```"),
                    None => value.to_owned(),
                }
            }
            _ => String::new(),
        }
    }
    answer.get("contents").map(text).unwrap_or_default()
}

/// A file's symbols; a flat list becomes one without anything inside.
#[must_use]
pub fn outline(answer: &Value) -> Vec<DocumentSymbol> {
    let one = |value: &Value| {
        DocumentSymbol::deserialize(value).ok().or_else(|| {
            let range = range(value.get("location")?.get("range")?)?;
            let name = value.get("name")?.as_str()?.to_owned();
            let kind = SymbolKind::deserialize(value.get("kind")?).ok()?;
            Some(DocumentSymbol { name, kind, range, selection_range: range, children: None })
        })
    };
    answer.as_array().map(|all| all.iter().filter_map(one).collect()).unwrap_or_default()
}

/// A workspace's symbols.
#[must_use]
pub fn symbols(answer: &Value) -> Vec<Symbol> {
    let one = |value: &Value| {
        let location = value.get("location")?;
        let start = Position { line: 0, character: 0 };
        let whole = Range { start, end: start };
        Some(Symbol {
            name: value.get("name")?.as_str()?.to_owned(),
            kind: SymbolKind::deserialize(value.get("kind")?).ok()?,
            container: value.get("containerName").and_then(Value::as_str).unwrap_or_default().to_owned(),
            location: Location {
                path: path(location.get("uri")?)?,
                range: location.get("range").and_then(range).unwrap_or(whole),
            },
        })
    };
    answer.as_array().map(|all| all.iter().filter_map(one).collect()).unwrap_or_default()
}

fn call_item(value: &Value) -> Option<CallItem> {
    Some(CallItem {
        name: value.get("name")?.as_str()?.to_owned(),
        kind: SymbolKind::deserialize(value.get("kind")?).ok()?,
        location: Location { path: path(value.get("uri")?)?, range: range(value.get("selectionRange")?)? },
        raw: value.clone(),
    })
}

impl CallItem {
    /// The functions at a place.
    #[must_use]
    pub fn all(answer: &Value) -> Vec<Self> {
        answer.as_array().map(|all| all.iter().filter_map(call_item).collect()).unwrap_or_default()
    }
}

fn calls(answer: &Value, end: &str) -> Vec<(CallItem, Vec<Range>)> {
    let one = |value: &Value| {
        let ranges = value.get("fromRanges").and_then(Value::as_array);
        let ranges = ranges.map(|all| all.iter().filter_map(range).collect()).unwrap_or_default();
        Some((call_item(value.get(end)?)?, ranges))
    };
    answer.as_array().map(|all| all.iter().filter_map(one).collect()).unwrap_or_default()
}

/// Who calls; the ranges are in the caller.
#[must_use]
pub fn calls_in(answer: &Value) -> Vec<IncomingCall> {
    calls(answer, "from")
}

/// Who is called; the ranges are in the function asked about.
#[must_use]
pub fn calls_out(answer: &Value) -> Vec<OutgoingCall> {
    calls(answer, "to")
}

/// The answer to a request for diagnostics, or what a server published.
#[must_use]
pub fn diagnostics(answer: &Value) -> Vec<Diagnostic> {
    let all = answer.get("items").or_else(|| answer.get("diagnostics")).and_then(Value::as_array);
    let one = |value: &Value| {
        Some(Diagnostic {
            range: range(value.get("range")?)?,
            severity: Severity::numbered(value.get("severity").and_then(Value::as_u64)),
            code: value.get("code").map(code).unwrap_or_default(),
            message: value.get("message")?.as_str()?.to_owned(),
        })
    };
    all.map(|all| all.iter().filter_map(one).collect()).unwrap_or_default()
}

/// What tsserver itself answers to one of its `…DiagnosticsSync` commands: lines and columns from 1.
#[must_use]
pub fn tsserver_diagnostics(answer: &Value) -> Vec<Diagnostic> {
    let place = |value: &Value| {
        let number = |name: &str| value.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        Some(Position {
            line: number("line")?.saturating_sub(1),
            character: number("offset")?.saturating_sub(1),
        })
    };
    let one = |value: &Value| {
        let severity = match value.get("category").and_then(Value::as_str) {
            Some("warning") => Severity::Warning,
            Some("suggestion") => Severity::Hint,
            Some("message") => Severity::Information,
            _ => Severity::Error,
        };
        Some(Diagnostic {
            range: Range { start: place(value.get("start")?)?, end: place(value.get("end")?)? },
            severity,
            code: value.get("code").map(|code| format!("TS{}", self::code(code))).unwrap_or_default(),
            message: value.get("text")?.as_str()?.to_owned(),
        })
    };
    let all = answer.get("body").and_then(Value::as_array);
    all.map(|all| all.iter().filter_map(one).collect()).unwrap_or_default()
}

fn code(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Object(object) => object.get("value").map(code).unwrap_or_default(),
        _ => String::new(),
    }
}

/// An edit that would do more than change texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownEdit(
    /// What it would do ("rename").
    pub String,
);

/// The edits of a workspace, file by file, from either shape.
///
/// # Errors
/// It would make, move or remove files.
pub fn edits(answer: &Value) -> Result<BTreeMap<PathBuf, Vec<TextEdit>>, UnknownEdit> {
    let mut all: BTreeMap<PathBuf, Vec<TextEdit>> = BTreeMap::new();
    let mut add = |file: Option<PathBuf>, edits: &Value| {
        let Some(file) = file else { return };
        let edits = edits.as_array().into_iter().flatten();
        all.entry(file).or_default().extend(edits.filter_map(|edit| TextEdit::deserialize(edit).ok()));
    };
    if let Some(changes) = answer.get("documentChanges").and_then(Value::as_array) {
        for change in changes {
            if let Some(kind) = change.get("kind").and_then(Value::as_str) {
                return Err(UnknownEdit(kind.to_owned()));
            }
            let file = change.get("textDocument").and_then(|document| document.get("uri")).and_then(path);
            add(file, change.get("edits").unwrap_or(&Value::Null));
        }
    } else if let Some(changes) = answer.get("changes").and_then(Value::as_object) {
        for (uri, edits) in changes {
            add(crate::from_uri(uri), edits);
        }
    }
    all.retain(|_, edits| !edits.is_empty());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_shape_of_an_answer_is_read() {
        let range = json!({"start": {"line": 1, "character": 2}, "end": {"line": 1, "character": 5}});
        let plain = json!({"uri": "file:///a.rs", "range": range});
        let link = json!({"targetUri": "file:///a.rs", "targetRange": range, "targetSelectionRange": range});
        let found = locations(&plain);
        assert_eq!(found.len(), 1);
        assert_eq!(locations(&json!([plain, plain])), [found.clone(), found.clone()].concat());
        assert_eq!(locations(&json!([link])), found);
        assert_eq!(locations(&Value::Null), []);
        assert_eq!(hover(&json!({"contents": {"kind": "markdown", "value": "x"}})), "x");
        assert_eq!(
            hover(&json!({"contents": ["a", {"language": "go", "value": "b"}]})),
            "a\n\n```go\nb\n```"
        );
        let edit = json!([{"range": range, "newText": "n"}]);
        let one = edits(&json!({"changes": {"file:///a.rs": edit}}));
        let other = edits(
            &json!({"documentChanges": [{"textDocument": {"uri": "file:///a.rs", "version": 1}, "edits": edit}]}),
        );
        assert_eq!(one, other);
        assert_eq!(
            edits(
                &json!({"documentChanges": [{"kind": "rename", "oldUri": "file:///a", "newUri": "file:///b"}]})
            ),
            Err(UnknownEdit("rename".to_owned()))
        );
        let flat = json!([{"name": "f", "kind": 12, "location": {"uri": "file:///a.rs", "range": range}}]);
        assert_eq!(outline(&flat)[0].kind.word(), "function");
        assert_eq!(symbols(&flat)[0].location, found[0]);
        let said =
            json!({"items": [{"range": range, "message": "m", "code": {"value": "E1"}, "severity": 2}]});
        assert_eq!(diagnostics(&said)[0].code, "E1");
        let body = json!({"body": [{"start": {"line": 2, "offset": 3}, "end": {"line": 2, "offset": 6}, "text": "m", "code": 7}]});
        let seen = &tsserver_diagnostics(&body)[0];
        assert_eq!((seen.range, seen.code.as_str()), (found[0].range, "TS7"));
    }
}
