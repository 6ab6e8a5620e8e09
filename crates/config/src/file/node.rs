//! YAML as a tree that remembers where everything stood.

use super::expand::unmask;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;
use std::{collections::BTreeMap, fmt};

/// A place in a file; both count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl Place {
    fn of<T>(spanned: &Spanned<T>) -> Self {
        Self { line: spanned.referenced.line(), column: spanned.referenced.column() }
    }
}

/// Where each key stands, by its path (`spec.hooks.deny.command`, `spec.hooks.deny.phases[0]`).
#[derive(Debug, Clone, Default)]
pub struct Places(BTreeMap<String, Place>);

impl Places {
    /// The place of `path`, or of the nearest thing around it that has one.
    #[must_use]
    pub fn of(&self, path: &str) -> Place {
        let mut path = path;
        loop {
            if let Some(place) = self.0.get(path) {
                return *place;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.0.get("").copied().unwrap_or(Place { line: 1, column: 1 }),
            }
        }
    }
}

/// A scalar that cannot be used, with its path.
pub(super) struct Bad {
    pub(super) path: String,
    pub(super) why: String,
}

/// Reads a document; every string goes through `expand`.
pub(super) fn read(
    text: &str,
    expand: &dyn Fn(&str) -> Result<String, String>,
) -> Result<(Value, Places, Vec<Bad>), serde_saphyr::Error> {
    let root: Spanned<Node> = serde_saphyr::from_str(text)?;
    let mut walk = Walk { expand, places: Places::default(), bad: Vec::new() };
    let value = walk.value(root, String::new());
    Ok((value, walk.places, walk.bad))
}

enum Node {
    Plain(Value),
    Text(String),
    List(Vec<Spanned<Node>>),
    Table(Vec<(Spanned<String>, Spanned<Node>)>),
}

struct Walk<'a> {
    expand: &'a dyn Fn(&str) -> Result<String, String>,
    places: Places,
    bad: Vec<Bad>,
}

impl Walk<'_> {
    fn value(&mut self, node: Spanned<Node>, path: String) -> Value {
        let place = Place::of(&node);
        self.places.0.entry(path.clone()).or_insert(place);
        match node.value {
            Node::Plain(value) => value,
            Node::Text(text) => match (self.expand)(&unmask(&text)) {
                Ok(text) => Value::String(text),
                Err(why) => {
                    self.bad.push(Bad { path, why });
                    Value::Null
                }
            },
            Node::List(items) => {
                let items = items.into_iter().enumerate();
                Value::Array(
                    items.map(|(index, item)| self.value(item, format!("{path}[{index}]"))).collect(),
                )
            }
            Node::Table(entries) => {
                let mut map = Map::new();
                for (key, item) in entries {
                    let name = unmask(&key.value);
                    let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    // A key's own place says more than that of its value.
                    self.places.0.insert(inner.clone(), Place::of(&key));
                    let value = self.value(item, inner);
                    map.insert(name, value);
                }
                Value::Object(map)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Plain(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Node, E> {
        Number::from_f64(value)
            .map(|number| Node::Plain(Value::Number(number)))
            .ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Table(entries))
    }
}
