//! Classes in Python and what they are derived from: its servers do not take an override for the same thing as what it
//! overrides.

use super::{names, running::InUse, told::source, trouble::Trouble};
use crate::Call;
use ::code::{Kind, Language, Symbol};
use ::lsp::{Encoding, Lines, Position};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::{Path, PathBuf},
};

/// Questions that are asked.
const ASKED: usize = 200;

/// A class: its file, and the line that its name stands on.
pub(super) type Class = (PathBuf, u32);

/// The class whose member has its name at a place: declared there, or used through `self`.
pub(super) fn class_of<'a>(symbols: &'a [Symbol], text: &str, at: usize) -> Option<(&'a Symbol, Member)> {
    let class = symbols.iter().rfind(|it| it.kind == Kind::Class && it.full.contains(&at))?;
    let own = |it: &Symbol| it.container.is_some_and(|of| symbols[of].name_at == class.name_at);
    if symbols.iter().any(|it| it.name_at.start == at && own(it)) {
        return Some((class, Member::Declared));
    }
    let before = text.get(..at)?;
    ["self.", "cls."].iter().any(|it| before.ends_with(it)).then_some((class, Member::Used))
}

/// How a member is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    /// In the class itself.
    Declared,
    /// Through `self`, which declares it where a value is given.
    Used,
}

/// What a class is derived from, or a name stands for.
struct Above {
    name: String,
    at: Position,
}

/// Those that a file's classes are derived from, by the line of the class. A name that is given to a class is taken for
/// one that is derived from it.
fn heads(text: &str, encoding: Encoding) -> HashMap<u32, Vec<Above>> {
    let lines = Lines::of(text);
    let of = |symbol: &Symbol| {
        let start = symbol.name_at.end;
        let within = match symbol.kind {
            Kind::Class => start..symbol.signature.end,
            Kind::Variable | Kind::Constant | Kind::Type => start..symbol.full.end,
            _ => return None,
        };
        let head = text.get(within)?;
        let found =
            if symbol.kind == Kind::Class { bases(head) } else { other_name(head).into_iter().collect() };
        let above = |it: Range<usize>| Above {
            name: head[it.clone()].to_owned(),
            at: lines.position(start + it.start, encoding),
        };
        let line = lines.position(symbol.name_at.start, encoding).line;
        Some((line, found.into_iter().map(above).collect()))
    };
    ::code::outline(Language::Python, text.as_bytes(), ::code::Depth::Items).iter().filter_map(of).collect()
}

/// The names of what a class is derived from, in what stands behind its own: `[T](a.Base[T], metaclass=Meta):`.
fn bases(head: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut name: Option<Range<usize>> = None;
    let (mut square, mut round, mut keyword) = (0_usize, 0_usize, false);
    let mut chars = head.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '#' => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            '\'' | '"' => while chars.next().is_some_and(|(_, other)| other != c) {},
            '[' => square += 1,
            ']' => square = square.saturating_sub(1),
            _ if square > 0 => {}
            '(' => {
                round += 1;
                name = None;
            }
            ',' | ')' => {
                found.extend(name.take());
                keyword = false;
                round -= usize::from(c == ')').min(round);
                if round == 0 {
                    break;
                }
            }
            '=' => {
                name = None;
                keyword = true;
            }
            _ if round > 0 && !keyword && names::inner(c) => {
                let end = at + c.len_utf8();
                name = match name {
                    Some(name) if name.end == at => Some(name.start..end),
                    _ => Some(at..end),
                };
            }
            _ => {}
        }
    }
    found
}

/// The name that another one stands for, in what stands behind it: `= a.Base`.
fn other_name(behind: &str) -> Option<Range<usize>> {
    let value = behind.find('=')? + 1;
    let end = behind[value..].find(['[', '#', '\n']).map_or(behind.len(), |at| value + at);
    let plain = behind[value..end].trim();
    let end = value + behind[value..end].trim_end().len();
    let last = plain.rsplit('.').next()?;
    plain.split('.').all(names::is_name).then(|| end - last.len()..end)
}

/// What is known of classes so far.
pub(super) struct Family<'a> {
    call: &'a Call,
    server: &'a InUse,
    /// Classes whose members get a new name, and all that they are derived from.
    edited: HashSet<Class>,
    overridden: HashSet<Class>,
    /// The names of the edited ones, for what leads nowhere.
    names: HashMap<String, Class>,
    heads: HashMap<PathBuf, HashMap<u32, Vec<Above>>>,
    above: HashMap<Class, Vec<Class>>,
    asked: usize,
}

impl<'a> Family<'a> {
    /// The family of classes that members with new names belong to, each with its name.
    pub(super) async fn of(
        call: &'a Call,
        server: &'a InUse,
        edited: HashMap<Class, String>,
    ) -> Result<Self, Trouble> {
        let names = edited.iter().map(|(class, name)| (name.clone(), class.clone())).collect();
        let edited: HashSet<Class> = edited.into_keys().collect();
        let mut family = Self {
            call,
            server,
            overridden: HashSet::new(),
            names,
            heads: HashMap::new(),
            above: HashMap::new(),
            asked: 0,
            edited: HashSet::new(),
        };
        for class in &edited {
            let all = family.ancestors(class).await?;
            family.overridden.extend(all);
        }
        Ok(Self { edited, ..family })
    }

    /// Whether a class is derived from one whose member gets a new name, or the other way round.
    pub(super) async fn has(&mut self, class: &Class) -> Result<bool, Trouble> {
        if self.edited.is_empty() {
            return Ok(false);
        }
        let known = self.edited.contains(class) || self.overridden.contains(class);
        Ok(known || !self.ancestors(class).await?.is_disjoint(&self.edited))
    }

    /// Everything that a class is derived from.
    async fn ancestors(&mut self, class: &Class) -> Result<HashSet<Class>, Trouble> {
        let (mut found, mut next) = (HashSet::new(), vec![class.clone()]);
        while let Some(class) = next.pop() {
            for above in self.above(&class).await? {
                if found.insert(above.clone()) {
                    next.push(above);
                }
            }
        }
        found.remove(class);
        Ok(found)
    }

    /// What a class is derived from.
    async fn above(&mut self, class: &Class) -> Result<Vec<Class>, Trouble> {
        if let Some(known) = self.above.get(class) {
            return Ok(known.clone());
        }
        self.read(&class.0).await?;
        let heads = self.heads.get(&class.0).and_then(|heads| heads.get(&class.1));
        let mut found = Vec::new();
        for Above { name, at } in heads.map(Vec::as_slice).unwrap_or_default() {
            let mut leads = Vec::new();
            if self.asked < ASKED {
                self.asked += 1;
                leads = self.server.leads(self.call, &class.0, *at).await?;
            }
            if leads.is_empty() {
                found.extend(self.names.get(name).cloned());
            }
            let ours = |at: &::lsp::Location| Some((self.server.ours(&at.path)?, at.range.start.line));
            found.extend(leads.iter().filter_map(ours));
        }
        self.above.insert(class.clone(), found.clone());
        Ok(found)
    }

    /// Looks into a file, and shows it.
    async fn read(&mut self, file: &Path) -> Result<(), Trouble> {
        if self.heads.contains_key(file) {
            return Ok(());
        }
        let (relative, encoding) = (file.to_owned(), self.server.client.encoding());
        let look = move |call: &Call| {
            let path = call.workspace.resolve(&relative).ok();
            Ok(path.and_then(|path| Some((heads(&source(&call.workspace, &path).ok()?, encoding), path))))
        };
        let (heads, path) = self.call.blocking(look).await?.unzip();
        if let Some(path) = path {
            self.server.sync(self.call, &[path]).await?;
        }
        self.heads.insert(file.to_owned(), heads.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_derived_from_what_its_head_names() {
        for (head, expected) in [
            (":", &[][..]),
            ("():", &[]),
            ("(Base):", &["Base"]),
            ("(a.Base, Other):", &["Base", "Other"]),
            ("[T: int](Base[T, Item], metaclass=Meta):", &["Base"]),
            ("(\n    Base,  # not (this\n    a . Größe,\n):", &["Base", "Größe"]),
            ("(with_metaclass(Meta, Base)):", &["Meta", "Base"]),
            ("(Generic[\"T, U\"], Base, total=False)", &["Base"]),
            ("(", &[]),
        ] {
            let found: Vec<&str> = bases(head).into_iter().map(|it| &head[it]).collect();
            let generic: Vec<&str> = found.into_iter().filter(|it| *it != "Generic").collect();
            assert_eq!(generic, expected, "{head}");
        }
        for (behind, expected) in [
            (" = Base", Some("Base")),
            (": TypeAlias = a.b.Base[int]  # x", Some("Base")),
            (" = Base  # x", Some("Base")),
            (" = make(Base)", None),
            (": int", None),
            (" = 1", None),
        ] {
            assert_eq!(other_name(behind).map(|it| &behind[it]), expected, "{behind}");
        }
    }

    #[test]
    fn a_name_is_of_the_class_around_it() {
        let text = "class A:\n    x = 1\n    def f(self):\n        self.x = self.y\n        x = 2\n\n    class B:\n        def f(self): ...\n\ndef f(): ...\n";
        let symbols = ::code::outline(Language::Python, text.as_bytes(), ::code::Depth::Items);
        let of = |name: &str| {
            let class = |(at, _)| class_of(&symbols, text, at).map(|(class, how)| (class.name.as_str(), how));
            text.match_indices(name).map(class).collect::<Vec<_>>()
        };
        assert_eq!(of("x "), [Some(("A", Member::Declared)), Some(("A", Member::Used)), None]);
        assert_eq!(of("f("), [Some(("A", Member::Declared)), Some(("B", Member::Declared)), None]);
    }
}
