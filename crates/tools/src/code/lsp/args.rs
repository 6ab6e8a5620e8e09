//! Arguments that these tools share.

use schemars::JsonSchema;
use serde::Deserialize;

/// Declares arguments that name a place in the code, by position or by name, and more. A struct within would do,
/// but serde cannot flatten one and refuse unknown fields.
macro_rules! place_args {
    ($(#[$note:meta])* $name:ident { $($rest:tt)* }) => {
        $(#[$note])*
        #[derive(::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            #[serde(default)]
            file_path: Option<String>,
            #[serde(default)]
            line: Option<u32>,
            #[serde(default)]
            col: Option<u32>,
            #[serde(default)]
            symbol: Option<String>,
            $($rest)*
        }

        impl $name {
            pub(super) fn at(&self) -> super::ask::At<'_> {
                super::ask::At {
                    file: self.file_path.as_deref(),
                    line: self.line,
                    col: self.col,
                    symbol: self.symbol.as_deref(),
                }
            }
        }
    };
}

place_args! {
    /// A place in the code.
    Place {}
}

/// A file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub(super) file_path: String,
}

/// Declares a tool that reads, with its arguments and the function that answers.
macro_rules! read_tool {
    ($tool:ident, $args:ty, $name:literal, $description:literal, $answer:ident) => {
        impl Tool for $tool {
            const SPEC: Spec = Spec {
                name: $name,
                group: Group::Code,
                class: Class::Read,
                description: $description,
                destructive: false,
                idempotent: true,
                open_world: false,
                long: false,
            };
            type Args = $args;
            type Output = String;

            async fn run(&self, call: &Call, args: $args) -> Result<String, ToolError> {
                twice!($answer(call, &args))
            }
        }
    };
}

/// The same for a place.
macro_rules! place_tool {
    ($tool:ident, $name:literal, $description:literal, $answer:ident) => {
        super::args::read_tool!($tool, Place, $name, $description, $answer);
    };
}

pub(super) use {place_args, place_tool, read_tool};
