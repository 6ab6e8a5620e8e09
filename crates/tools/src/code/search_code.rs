//! `search_code`: symbols by words.

use super::index::{Standing, Symbols};
use crate::{Call, Class, Facts, Group, Spec, Tool, ToolError};
use ::code::{Filter, Hit, Kind, Language};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{collections::HashMap, fmt::Write as _, sync::Arc};
use workspace::quoted;

const LIMIT: u32 = 20;
const MOST: u32 = 100;
/// Bytes of a query.
const QUERY: usize = 4096;
/// Characters of an argument that are said again.
const SAID: usize = 200;

/// Searches symbols.
pub(crate) struct SearchCode;

/// What `search_code` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    query: String,
    /// 20, max 100
    limit: Option<u32>,
    language: Option<String>,
    /// function, method, class, …
    kind: Option<String>,
}

/// What it found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    results: Vec<One>,
    /// How many symbols fit, shown or not.
    total: usize,
    /// Files that the answer rests on, and files there are to index.
    files_indexed: usize,
    files: usize,
}

#[derive(Serialize, JsonSchema)]
struct One {
    file: String,
    line: usize,
    kind: &'static str,
    name: String,
    signature: String,
    doc: String,
    score: f32,
}

impl Tool for SearchCode {
    const SPEC: Spec = Spec {
        name: "search_code",
        group: Group::Code,
        class: Class::Read,
        description: "Find symbols by words in names, signatures and docs, best first (Go, Rust, TS, JS, Python, Java, C).",
        destructive: false,
        idempotent: true,
        open_world: false,
        long: false,
    };
    type Args = Args;
    type Output = Facts<Found>;

    async fn run(&self, call: &Call, args: Args) -> Result<Facts<Found>, ToolError> {
        let index = call.host().indexes.of(&call.workspace);
        let pace = Arc::clone(&index.pace);
        call.paced(&pace, move |call| search(call, &index, &args)).await
    }
}

/// What somebody wrote, as it can be said again.
fn said(words: &str) -> String {
    let plain: String = words.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SAID + 1).collect();
    match plain.char_indices().nth(SAID) {
        Some((end, _)) => format!("{}…", &plain[..end]),
        None => plain,
    }
}

fn search(call: &Call, index: &Symbols, args: &Args) -> Result<Facts<Found>, ToolError> {
    if args.query.len() > QUERY {
        let why = format!("search_code: `query` has {} bytes, more than {QUERY}", args.query.len());
        return Err(ToolError::with_hint(why, "give words of a name or of its description"));
    }
    if !args.query.contains(char::is_alphanumeric) {
        let what = if args.query.trim().is_empty() { "is empty" } else { "holds no words" };
        return Err(ToolError::caller(format!(
            "search_code: `query` {what}; give words of a name or of its description"
        )));
    }
    let kinds = kinds(args.kind.as_deref())?;
    let languages = languages(args.language.as_deref())?;
    let filter = Filter { kinds: &kinds, languages };
    let limit = args.limit.unwrap_or(LIMIT).clamp(1, MOST) as usize;
    let (hits, total, standing) = index.search(&args.query, &filter, limit);
    // a name of another kind or in another language is not taken for none at all
    let narrow = total == 0 && !(kinds.is_empty() && languages.is_empty());
    let others = if narrow { index.search(&args.query, &Filter::default(), 1).1 } else { 0 };
    let mut results = show(call, hits);
    // of names that differ in how they are written, the one that is written as in the question
    let name = args.query.trim();
    let other = |one: &One| {
        !one.name.strip_suffix(name).is_some_and(|owner| owner.is_empty() || owner.ends_with(['.', ':']))
    };
    results.sort_by_key(other);
    Ok(Facts {
        text: text(&args.query, &results, (total, others), &standing),
        facts: Found { results, total, files_indexed: standing.done, files: standing.all },
    })
}

/// A kind as it is asked for; functions of types are functions too.
fn kinds(asked: Option<&str>) -> Result<Vec<Kind>, ToolError> {
    let Some(asked) = asked.map(|asked| asked.trim().to_lowercase()).filter(|asked| !asked.is_empty()) else {
        return Ok(Vec::new());
    };
    if asked == "function" {
        return Ok(vec![Kind::Function, Kind::Method]);
    }
    let searched = Kind::ALL.iter().filter(|kind| **kind != Kind::Impl);
    let found = searched.clone().find(|kind| kind.name() == asked);
    found.map(|kind| vec![*kind]).ok_or_else(|| {
        let known: Vec<&str> = searched.map(|kind| kind.name()).collect();
        let asked = said(&asked);
        ToolError::caller(format!("search_code: no kind \"{asked}\"; there are {}", known.join(", ")))
    })
}

fn languages(asked: Option<&str>) -> Result<&'static [Language], ToolError> {
    let Some(asked) = asked.filter(|asked| !asked.trim().is_empty()) else { return Ok(&[]) };
    match Language::named(asked) {
        [] => {
            let known: Vec<&str> = Language::ALL.iter().map(|language| language.name()).collect();
            Err(ToolError::caller(format!(
                "search_code has no grammar for \"{}\"; it knows {}",
                said(asked),
                known.join(", ")
            )))
        }
        found => Ok(found),
    }
}

/// Reads from the files what is shown.
fn show(call: &Call, hits: Vec<Hit>) -> Vec<One> {
    let mut files = HashMap::new();
    let mut results = Vec::with_capacity(hits.len());
    for hit in hits {
        let file = files.entry(Arc::clone(&hit.path)).or_insert_with(|| call.workspace.parts_of(&hit.path));
        // `None`: deleted in this very moment
        let shown = file.as_ref().and_then(|file| hit.show(|part| file.read(part).ok()));
        let Some(shown) = shown else { continue };
        results.push(One {
            file: quoted(&hit.path).into_owned(),
            line: shown.line,
            kind: shown.kind.name(),
            name: shown.name,
            signature: shown.signature,
            doc: shown.doc,
            score: hit.score,
        });
    }
    results
}

fn text(query: &str, results: &[One], (total, others): (usize, usize), standing: &Standing) -> String {
    let mut text = String::new();
    if let Some(note) = standing.note() {
        let _ = writeln!(text, "{note}");
    }
    let omission = standing.omission();
    if results.is_empty() {
        let _ = write!(text, "no symbol fits \"{}\" ({} files indexed)", said(query), standing.done);
        if others > 0 {
            let _ = write!(text, "; without `kind` and `language` {others} would");
        }
        text.extend(omission.map(|omission| format!("\n{omission}")));
        return text;
    }
    for One { file, line, kind, name, signature, doc, .. } in results {
        // a signature mostly says the name; what it belongs to it does not
        let shown = if signature.is_empty() { name.as_str() } else { signature.as_str() };
        let owner = name.rsplit_once("::").or_else(|| name.rsplit_once('.')).map(|(owner, _)| owner);
        let owner = owner.map(|owner| format!(" in {owner}")).unwrap_or_default();
        let _ = writeln!(text, "{file}:{line} {kind}{owner}: {shown}");
        if !doc.is_empty() {
            let _ = writeln!(text, "    {doc}");
        }
    }
    if total > results.len() {
        let _ = writeln!(
            text,
            "{} of {total}; more words or a higher limit (max {MOST}) tell more",
            results.len()
        );
    }
    text.extend(omission);
    text.truncate(text.trim_end().len());
    text
}
