//! Another body for a function.

use std::borrow::Cow;
use std::ops::Range;

use super::{EditError, Edited, Job, Splice, Within};
use crate::indent;
use crate::language::Language;
use crate::outline::Symbol;
use crate::parse::{Depth, Reader};

/// A way to read a new body.
struct Form {
    splice: Splice,
    /// Where the body then begins.
    start: usize,
    /// Another form of the one before: what is wrong with that one says more.
    guessed: bool,
}

impl Job<'_> {
    pub(super) fn body(&self, new: &str) -> Result<Edited, EditError> {
        let symbol = self.symbol;
        let Some(body) = symbol.body.clone() else { return Err(EditError::NoBody { found: self.listed() }) };
        if self.is_whole_function(new) || self.is_function_value(new) {
            return Err(EditError::WholeFunction { name: self.listed().name });
        }
        let python = self.before.language == Language::Python;
        let forms = if python { self.python_bodies(&body, new) } else { self.braced_bodies(&body, new) };
        // the same statements in another dress, or with mistakes that were there before
        let same = self.is_body(&body, new);
        let mut refused = EditError::DoesNotParse { reason: "there is nothing in it".to_owned() };
        for form in forms {
            let done = self.splice(&form.splice, |changed, symbols| {
                let same = |it: &&Symbol| it.name_at == symbol.name_at && it.name == symbol.name;
                let now = symbols.iter().find(same).and_then(|it| it.body.clone());
                // a comment at the end of a Python block may count as part of it or not
                let text = &form.splice.text;
                let code = text
                    .lines()
                    .rev()
                    .take_while(|line| line.trim().is_empty() || python && line.trim().starts_with('#'));
                let loose: usize = code.map(|line| line.len() + 2).sum();
                now.is_some_and(|now| {
                    let end = now.end <= changed.new.end && now.end + loose >= changed.new.end;
                    now.start == form.start && end
                })
            });
            match done {
                Ok(done) if !same => return Ok(done),
                Ok(_) => break,
                Err(_) if form.guessed => {}
                Err(error) => refused = error,
            }
        }
        Err(if same { EditError::Same } else { refused })
    }

    /// Whether a body has the text that it is to have, white space around it and its braces aside.
    fn is_body(&self, body: &Range<usize>, new: &str) -> bool {
        let old = String::from_utf8_lossy(&self.source()[body.clone()]).replace("\r\n", "\n");
        inner(&old).trim() == inner(new).trim()
    }

    /// The ways to read a new body between braces, the likeliest first.
    fn braced_bodies(&self, body: &Range<usize>, new: &str) -> Vec<Form> {
        let mut forms = Vec::new();
        let mut add = |texts: Vec<String>, lead: usize| {
            forms.extend(texts.into_iter().enumerate().map(|(turn, text)| Form {
                splice: Splice { at: body.clone(), text, lead },
                start: body.start,
                guessed: turn > 0,
            }));
        };
        let language = self.before.language;
        let outer = self.indent();
        let old = String::from_utf8_lossy(&self.source()[body.clone()]);
        let lines = self.old_lines(body, &old);
        let inside = lines.part(1..lines.len().max(2) - 1);
        // `() => ({ … })`
        let was_object = !self.symbol.block && is_object(language, &old);
        let held = self.symbol.block || was_object;
        let target = inside.base(language).filter(|_| held).map(str::to_owned);
        let target = target.unwrap_or_else(|| format!("{outer}{}", indent::unit(language, self.source())));
        let last = old.rsplit('\n').next().unwrap_or_default().trim_end_matches(')');
        let closing = last.strip_suffix('}').unwrap_or_default();
        let closing = if old.contains('\n') && closing.trim().is_empty() { closing } else { &outer };
        let trimmed = new.trim();
        let trimmed = if self.symbol.block { trimmed } else { trimmed.trim_end_matches(';').trim_end() };
        let braced = trimmed.len() > 1 && trimmed.starts_with('{') && trimmed.ends_with('}');
        if braced {
            let blocks = self.between_braces(body, trimmed, &target, closing);
            let object = !self.symbol.block && is_object(language, &format!("({trimmed})"));
            let objects: Vec<String> =
                blocks.iter().filter(|_| object).map(|text| format!("({text})")).collect();
            // what can be either is what was there
            let (first, then) = if was_object { (objects, blocks) } else { (blocks, objects) };
            add(first.into_iter().chain(then).collect(), 0);
        }
        if !self.symbol.block && !braced {
            add(vec![trimmed.to_owned()], 0);
        }
        let bare = new.trim_end().trim_start_matches('\n');
        if bare.trim().is_empty() {
            add(vec!["{}".to_owned()], 0);
        } else {
            let bare = Within { before: "{\n", text: bare, after: "\n}" };
            let fitted = self.fitted(body, &bare, &target);
            add(fitted.into_iter().map(|text| format!("{{\n{text}\n{closing}}}")).collect(), 1);
        }
        forms
    }

    /// A body that came with its braces.
    fn between_braces(&self, body: &Range<usize>, text: &str, target: &str, closing: &str) -> Vec<String> {
        let Some((head, _)) = text.split_once('\n') else { return vec![text.to_owned()] };
        let lines = self.lines(body, &Within::alone(text));
        let closed = lines.last_of_code().is_some_and(|line| line.trim() == "}");
        let inside = lines.part(1..lines.len() - usize::from(closed));
        let end = if closed { format!("\n{closing}}}") } else { String::new() };
        if inside.len() == 0 {
            return vec![format!("{head}{end}")];
        }
        let fitted = self.fitted_lines(body, &inside, target);
        fitted.into_iter().map(|inside| format!("{head}\n{inside}{end}")).collect()
    }

    fn python_bodies(&self, body: &Range<usize>, new: &str) -> Vec<Form> {
        let bare = new.trim_end().trim_start_matches('\n');
        if bare.trim().is_empty() {
            return Vec::new();
        }
        let source = self.source();
        let same_line = indent::line_start(source, body.start) != body.start;
        let old = String::from_utf8_lossy(&source[body.clone()]);
        // a blank line below the signature stays when it was there
        let blank = |text: &str| text.split('\n').take_while(|line| line.trim().is_empty()).count();
        let above = "\n".repeat(if same_line { 0 } else { blank(&old).min(blank(new)) });
        let target =
            self.old_lines(body, &old).base(Language::Python).filter(|_| !same_line).map(str::to_owned);
        let target =
            target.unwrap_or_else(|| format!("{}{}", self.indent(), indent::unit(Language::Python, source)));
        let colon = self.symbol.signature.end;
        let newline = self.line_ends(body, "\n").len();
        // a comment behind a body of one line stays, unless another comes in its place
        let kept = match &old {
            Cow::Borrowed(old) if same_line => &old[end_of_code(old)..],
            _ => "",
        };
        let mut forms = Vec::new();
        if same_line && !bare.contains('\n') {
            let kept = if end_of_code(bare) < bare.len() { "" } else { kept };
            let splice = Splice { at: body.clone(), text: format!("{}{kept}", bare.trim()), lead: 0 };
            forms.push(Form { splice, start: body.start, guessed: false });
        }
        for (turn, text) in self.fitted(body, &Within::alone(bare), &target).into_iter().enumerate() {
            let (splice, start) = match same_line {
                true if kept.contains('\n') => (
                    Splice { at: colon..body.end, text: format!("\n{text}{kept}"), lead: 1 },
                    colon + newline,
                ),
                true => (
                    Splice { at: colon..body.end, text: format!("{kept}\n{text}"), lead: 1 },
                    colon + kept.len() + newline,
                ),
                false => (
                    Splice { at: body.clone(), text: format!("{above}{text}"), lead: above.len() },
                    body.start,
                ),
            };
            forms.push(Form { splice, start, guessed: turn > 0 });
        }
        forms
    }

    /// Whether a text is nothing but functions, one of them with the symbol's name: in a body they would be others.
    fn is_whole_function(&self, text: &str) -> bool {
        let language = self.before.language;
        let around: &[(&str, &str)] = match language {
            Language::Go => &[("package p\n", "")],
            Language::TypeScript | Language::Tsx | Language::JavaScript => {
                &[("", ""), ("class A {\n", "\n}")]
            }
            _ => &[("", "")],
        };
        let text = text.trim_end().trim_end_matches(';');
        // most bodies do not say the name
        text.contains(self.symbol.name.as_str())
            && around.iter().any(|(before, after)| {
                let mut whole = format!("{before}{text}{after}").into_bytes();
                let Some(parsed) = Reader::default().parse(language, &whole) else { return false };
                if parsed.broken().is_some() {
                    return false;
                }
                let mut functions = parsed.outline(Depth::Items);
                functions.retain(|it| it.kind.is_callable() && it.body.is_some());
                drop(parsed);
                functions.iter().for_each(|it| whole[it.full.clone()].fill(b' '));
                let left = String::from_utf8_lossy(&whole[before.len()..whole.len() - after.len()]);
                let comment = if language == Language::Python { "#" } else { "//" };
                functions.iter().any(|it| it.name == self.symbol.name)
                    && left.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with(comment))
            })
    }
}

impl Job<'_> {
    /// Whether a text is nothing but a function without a name, which as a statement would never run.
    fn is_function_value(&self, text: &str) -> bool {
        let language = self.before.language;
        let prefix = if language == Language::Go { "package p\n" } else { "" };
        if !(text.contains("=>") || text.contains("func")) {
            return false;
        }
        let whole = format!("{prefix}{text}");
        let Some(parsed) = Reader::default().parse(language, whole.as_bytes()) else { return false };
        let root = parsed.tree.root_node();
        let mut cursor = root.walk();
        let mut parts = root.named_children(&mut cursor).filter(|part| part.start_byte() >= prefix.len());
        let (Some(part), None) = (parts.next(), parts.next()) else { return false };
        let kind = part.named_child(0).filter(|_| part.kind() == "expression_statement").map(|it| it.kind());
        let functions = ["arrow_function", "function_expression", "generator_function", "func_literal"];
        if root.has_error() || !kind.is_some_and(|kind| functions.contains(&kind)) {
            return false;
        }
        // an expression may well be another function, unless it takes what this one takes
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let own = self.symbol.value.map(|value| {
            words(&String::from_utf8_lossy(&self.source()[value..self.symbol.signature.end.max(value)]))
        });
        self.symbol.block || own.is_some_and(|own| words(text).starts_with(&own))
    }
}

/// Where the last thing of a Python text ends that is no comment.
fn end_of_code(text: &str) -> usize {
    let parsed = Reader::default().parse(Language::Python, text.as_bytes());
    let mut end = 0;
    if let Some(parsed) = &parsed {
        parsed.visit(|node| {
            if node.child_count() == 0 && node.kind() != "comment" {
                end = end.max(node.end_byte());
            }
            true
        });
    }
    // line ends are things there
    if text[end..].contains('#') { text[..end].trim_end().len() } else { text.len() }
}

/// Whether a text is nothing but an object in parentheses.
fn is_object(language: Language, text: &str) -> bool {
    if !language.is_script() || !text.starts_with('(') {
        return false;
    }
    let Some(parsed) = Reader::default().parse(language, text.as_bytes()) else { return false };
    let mut node = parsed.tree.root_node();
    let mut only = !node.has_error();
    for kind in ["expression_statement", "parenthesized_expression", "object"] {
        only &= node.named_child_count() == 1;
        let Some(child) = node.named_child(0).filter(|child| only && child.kind() == kind) else {
            return false;
        };
        node = child;
    }
    true
}

/// What stands between braces; text without them as it is.
fn inner(text: &str) -> &str {
    let trimmed = text.trim();
    trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(text)
}
