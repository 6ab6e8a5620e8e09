//! Changes to one symbol by its name, through the same gate as `Edit`.

use crate::{
    Call, Class, Facts, Group, Spec, Tool, ToolError, Touches,
    files::{marker, rewrite},
    verify::{Touched, Wanted, feedback, look_before},
};
use ::code::{Change, EditError, Edited, Language, Listed, Target, edit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use workspace::{ContainedPath, Kind};

/// What a change by name did.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Done {
    path: String,
    symbol: String,
    /// First and last line of what is new.
    first_line: usize,
    last_line: usize,
    /// Whether the file was written; it is not when it already was as asked.
    changed: bool,
}

/// One change as the tools ask for it.
struct Asked {
    file_path: String,
    name: String,
    new: String,
    what: What,
    feedback: Option<Wanted>,
}

#[derive(Clone, Copy)]
enum What {
    Body,
    Signature,
    Replace,
    Before,
    After,
    Method,
    Delete,
}

impl What {
    fn change(self, new: &str) -> Change<'_> {
        match self {
            Self::Body => Change::Body(new),
            Self::Signature => Change::Signature(new),
            Self::Replace => Change::Replace(new),
            Self::Before => Change::Before(new),
            Self::After => Change::After(new),
            Self::Method => Change::MethodAfter(new),
            Self::Delete => Change::Delete,
        }
    }

    fn said(self) -> &'static str {
        match self {
            Self::Body => "replaced the body of",
            Self::Signature => "changed the signature of",
            Self::Replace => "replaced",
            Self::Before => "inserted before",
            Self::After | Self::Method => "inserted after",
            Self::Delete => "deleted",
        }
    }
}

/// Declares a tool that makes one change.
macro_rules! change {
    ($tool:ident, $name:literal, $about:literal, $args:ident, $what:expr) => {
        #[doc = concat!("`", $name, "`.")]
        pub(crate) struct $tool;

        impl Tool for $tool {
            const SPEC: Spec = Spec {
                name: $name,
                group: Group::Code,
                class: Class::Write,
                description: $about,
                destructive: true,
                idempotent: false,
                open_world: false,
                long: false,
            };
            const TOUCHES: Touches = Touches::Noted;
            type Args = $args;
            type Output = Facts<Done>;

            async fn run(&self, call: &Call, args: $args) -> Result<Facts<Done>, ToolError> {
                carry_out(call, $name, args.asked($what)).await
            }
        }
    };
}

/// What `edit_function_body` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BodyArgs {
    file_path: String,
    function_name: String,
    new_body: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

impl BodyArgs {
    fn asked(self, what: What) -> Asked {
        Asked {
            file_path: self.file_path,
            name: self.function_name,
            new: self.new_body,
            what,
            feedback: self.feedback,
        }
    }
}

/// What `change_function_signature` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignatureArgs {
    file_path: String,
    function_name: String,
    new_signature: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

impl SignatureArgs {
    fn asked(self, what: What) -> Asked {
        Asked {
            file_path: self.file_path,
            name: self.function_name,
            new: self.new_signature,
            what,
            feedback: self.feedback,
        }
    }
}

/// What `insert_after_method` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MethodArgs {
    file_path: String,
    receiver_type: String,
    method_name: String,
    new_method: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

impl MethodArgs {
    fn asked(self, what: What) -> Asked {
        let name = format!("{}.{}", self.receiver_type, self.method_name);
        Asked { file_path: self.file_path, name, new: self.new_method, what, feedback: self.feedback }
    }
}

/// What the tools for whole symbols take.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SymbolArgs {
    file_path: String,
    symbol: String,
    new_code: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

impl SymbolArgs {
    fn asked(self, what: What) -> Asked {
        Asked {
            file_path: self.file_path,
            name: self.symbol,
            new: self.new_code,
            what,
            feedback: self.feedback,
        }
    }
}

/// What `delete_symbol` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteArgs {
    file_path: String,
    symbol: String,
    #[serde(default)]
    #[schemars(with = "Wanted")]
    feedback: Option<Wanted>,
}

impl DeleteArgs {
    fn asked(self, what: What) -> Asked {
        Asked {
            file_path: self.file_path,
            name: self.symbol,
            new: String::new(),
            what,
            feedback: self.feedback,
        }
    }
}

change!(
    EditFunctionBody,
    "edit_function_body",
    "Replace a function's body (Python: with docstring). Name: Foo, (*T).Foo, T.foo, T::foo, mod.foo, Foo:LINE. Written \
     only if it parses. File must have been Read.",
    BodyArgs,
    What::Body
);
change!(
    ChangeFunctionSignature,
    "change_function_signature",
    "Replace a function's signature, keep its body.",
    SignatureArgs,
    What::Signature
);
change!(
    InsertAfterMethod,
    "insert_after_method",
    "Insert a method after another of its type.",
    MethodArgs,
    What::Method
);
change!(
    ReplaceSymbol,
    "replace_symbol",
    "Replace a symbol with its comments and decorators.",
    SymbolArgs,
    What::Replace
);
change!(InsertBeforeSymbol, "insert_before_symbol", "Insert code before a symbol.", SymbolArgs, What::Before);
change!(InsertAfterSymbol, "insert_after_symbol", "Insert code after a symbol.", SymbolArgs, What::After);
change!(
    DeleteSymbol,
    "delete_symbol",
    "Delete a symbol with its comments and decorators.",
    DeleteArgs,
    What::Delete
);

async fn carry_out(call: &Call, tool: &'static str, asked: Asked) -> Result<Facts<Done>, ToolError> {
    let wanted = asked.feedback;
    if wanted.is_none()
        && let Ok(path) = call.workspace.resolve(&asked.file_path)
    {
        look_before(call, &path).await;
    }
    let (mut done, touched) = call.blocking(move |call| change(call, tool, &asked)).await?;
    if let Some(touched) = touched {
        done.text.push_str(&feedback(call, wanted, vec![touched]).await);
    }
    Ok(done)
}

fn change(call: &Call, tool: &str, asked: &Asked) -> Result<(Facts<Done>, Option<Touched>), ToolError> {
    let path = call.workspace.resolve(&asked.file_path)?;
    if call.workspace.kind(&path) == Some(Kind::Folder) {
        return Err(ToolError::caller(format!("{tool}: {path} is a folder; pass a file")));
    }
    // Without what it is in, the name would be that of a function.
    if matches!(asked.what, What::Method) && asked.name.starts_with('.') {
        return Err(ToolError::with_hint(
            format!("{tool}: `receiver_type` is empty"),
            "for a function use insert_after_symbol",
        ));
    }
    let language = Language::of_path(path.relative()).filter(|language| language.editable());
    let language = language.ok_or_else(|| unknown(tool, &path))?;
    let modules = modules(path.relative());
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let target = Target { name: &asked.name, modules: &modules };
    let (mut done, mut note) = (None, None);
    let mut same = false;
    let written = rewrite(call, &path, |old| {
        marker::refuse(call, "edit", &path, old, &asked.new)?;
        match edit(language, old, &target, &asked.what.change(&asked.new)) {
            Ok(edited) => {
                let Edited { bytes, symbol, lines } = edited;
                done = Some((symbol, lines));
                note = call.note(tool, &path, Some(old));
                Ok(bytes)
            }
            Err(error) => {
                same = error == EditError::Same;
                Err(explain(tool, &path, asked, error))
            }
        }
    });
    call.noted(note, written.as_ref().ok().map(|written| written.new.clone()));
    let shown = path.to_string();
    if same {
        let text = format!("{} in {shown} already is as asked; nothing written", asked.name);
        let facts =
            Done { path: shown, symbol: asked.name.clone(), first_line: 0, last_line: 0, changed: false };
        return Ok((Facts { text, facts }, None));
    }
    let written = written?;
    let (symbol, (first_line, last_line)) = done.unwrap_or_default();
    let lines = match asked.what {
        What::Delete => String::new(),
        _ if first_line == last_line => format!(" (line {first_line})"),
        _ => format!(" (lines {first_line}-{last_line})"),
    };
    let text = format!("{} {symbol} in {shown}{lines}", asked.what.said());
    let facts = Done { path: shown, symbol, first_line, last_line, changed: true };
    let touched = Touched { path, before: written.old, after: Some(written.new) };
    Ok((Facts { text, facts }, Some(touched)))
}

fn unknown(tool: &str, path: &ContainedPath) -> ToolError {
    let known: Vec<&str> = Language::ALL.iter().filter(|it| it.editable()).map(|it| it.name()).collect();
    ToolError::with_hint(
        format!("{tool} has no grammar for {path}; it knows {}", known.join(", ")),
        "use Edit for this file",
    )
}

/// What the module in a file may be called: the file, and the folders it is in.
fn modules(path: &Path) -> Vec<String> {
    let name = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    path.file_stem().map(name).into_iter().chain(path.iter().map(name)).collect()
}

fn list(symbols: &[Listed]) -> String {
    symbols.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn explain(tool: &str, path: &ContainedPath, asked: &Asked, error: EditError) -> ToolError {
    match error {
        EditError::NotFound { near, total, broken, stands, .. } => {
            let what = match asked.what {
                What::Method => "method",
                What::Body | What::Signature => "function",
                _ => "symbol",
            };
            let message = format!("no {what} \"{}\" in {path}", asked.name);
            let more = total - near.len();
            let mut hint = match near.is_empty() {
                true => format!("it has no {what} at all"),
                false if more == 0 => format!("it has {}", list(&near)),
                false => format!("nearest: {}, {more} more", list(&near)),
            };
            match (broken, stands) {
                (Some(line), _) => {
                    hint.push_str(&format!(
                        "; line {line} does not parse, which may hide it: use Edit there"
                    ));
                }
                // Of a method that is asked for with its type, others may have the name.
                (None, Some(line)) if !near.iter().any(|one| one.line == line) => {
                    hint.push_str(&format!(
                        "; line {line} has the name, as no {what} (in a macro?): use Edit there"
                    ));
                }
                _ => {}
            }
            ToolError::with_hint(message, hint)
        }
        EditError::Ambiguous { candidates, total, .. } => {
            let more = match total - candidates.len() {
                0 => String::new(),
                more => format!(", {more} more"),
            };
            ToolError::with_hint(
                format!("\"{}\" is ambiguous in {path}: {total} candidates", asked.name),
                format!("pass one of {}{more}", list(&candidates)),
            )
        }
        error @ EditError::DoesNotParse { .. } => {
            ToolError::with_hint(error.to_string(), "nothing was written")
        }
        error @ EditError::Together { .. } => ToolError::with_hint(
            format!("{path}: {error}, which would go too"),
            "use Edit on that declaration; nothing was written",
        ),
        error @ EditError::WholeFunction { .. } => ToolError::with_hint(
            error.to_string(),
            "pass the statements alone, or all of it to replace_symbol; nothing was written",
        ),
        error @ EditError::WholeType { .. } => ToolError::with_hint(
            error.to_string(),
            "pass what goes into it alone, or all of it to replace_symbol; nothing was written",
        ),
        EditError::Unreadable => ToolError::with_hint(
            format!("{tool} cannot parse {path}: it is no UTF-8 text, or too large"),
            "use Edit for this file",
        ),
        error @ EditError::Dressed { .. } => ToolError::with_hint(
            format!("{path}: {error}"),
            "pass the signature alone, or all of it to replace_symbol; nothing was written",
        ),
        error @ EditError::NotAFunction { .. } => ToolError::with_hint(
            format!("{path}: {error}"),
            "replace_symbol replaces all of it; nothing was written",
        ),
        error @ EditError::NoBody { .. } => ToolError::with_hint(
            format!("{path}: {error}"),
            "change_function_signature and replace_symbol change it; nothing was written",
        ),
        error => ToolError::caller(format!("{path}: {error}")),
    }
}
