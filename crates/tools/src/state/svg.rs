//! Pictures that load nothing from elsewhere when somebody opens them.

use regex::{Captures, Regex};
use std::{borrow::Cow, sync::LazyLock};

/// Attributes whose value is loaded, except in a link, which somebody has to follow.
const LOADED: [&str; 8] = ["href", "src", "srcset", "data", "poster", "background", "action", "formaction"];

struct Patterns {
    attribute: Regex,
    hidden: Regex,
    import: Regex,
    url: Regex,
    scheme: Regex,
    host: Regex,
}

static PATTERNS: LazyLock<Result<Patterns, regex::Error>> = LazyLock::new(|| {
    Ok(Patterns {
        attribute: Regex::new(r#"([\w:.-]+)(\s*=\s*)("[^"]*"|'[^']*')"#)?,
        // A letter written as a number, or with a backslash that means nothing.
        hidden: Regex::new(r"\\(?:0{0,4}([2-7][0-9a-fA-F])\s?|([g-zG-Z@(:/]))")?,
        import: Regex::new(r"(?i)@import[^;}]*;?")?,
        url: Regex::new(r#"(?i)\burl\(\s*(?:&quot;|&#3[49];|["'])?\s*([^)]*)\)"#)?,
        scheme: Regex::new(r"(?i)\b(?:https?|ftp|file|wss?)\s*:")?,
        host: Regex::new(r#"(["'(,\s]|&quot;|&#3[49];)//"#)?,
    })
});

/// The picture without references to other files and hosts, and how many there were.
pub(super) fn alone(svg: &str) -> Result<(String, usize), regex::Error> {
    let patterns = PATTERNS.as_ref().map_err(Clone::clone)?;
    let mut taming = Taming { patterns, out: String::with_capacity(svg.len()), removed: 0 };
    taming.all(svg);
    Ok((taming.out, taming.removed))
}

struct Taming<'a> {
    patterns: &'a Patterns,
    out: String,
    removed: usize,
}

impl Taming<'_> {
    fn all(&mut self, svg: &str) {
        let (mut rest, mut in_style) = (svg, false);
        while let Some(at) = rest.find('<') {
            self.text(&rest[..at], in_style);
            rest = &rest[at..];
            let part = if rest.starts_with("<!--") {
                until(rest, "-->")
            } else if rest.starts_with("<![CDATA[") {
                until(rest, "]]>")
            } else if rest.starts_with("<?") {
                until(rest, "?>")
            } else {
                tag_in(rest)
            };
            rest = &rest[part.len()..];
            if part.starts_with("<?xml-stylesheet") {
                self.removed += 1;
            } else if part.starts_with("<!") || part.starts_with("<?") {
                self.text(part, in_style && part.starts_with("<![CDATA["));
            } else {
                let name = name_of(part);
                in_style = name == "style" && !part.ends_with("/>");
                self.tag(part, name);
            }
        }
        self.text(rest, in_style);
    }

    fn text(&mut self, text: &str, is_css: bool) {
        let text = if is_css { self.css(text) } else { Cow::Borrowed(text) };
        self.out.push_str(&text);
    }

    fn tag(&mut self, tag: &str, name: &str) {
        let link = name == "a";
        let patterns = self.patterns;
        let replaced = patterns.attribute.replace_all(tag, |found: &Captures<'_>| {
            let (key, quote) = (&found[1], &found[3][..1]);
            let value = &found[3][1..found[3].len() - 1];
            let local = key.rsplit(':').next().unwrap_or(key).to_ascii_lowercase();
            let start = value.trim_start().to_ascii_lowercase();
            let harmless = match (LOADED.contains(&local.as_str()), link) {
                (true, true) => only_leads(&start),
                (true, false) => {
                    start.is_empty() || start.starts_with('#') || start.starts_with("data:image/")
                }
                (false, _) => true,
            };
            if !harmless {
                self.removed += 1;
                return format!("{key}{}{quote}{quote}", &found[2]);
            }
            if local == "style" || start.contains("url") {
                return format!("{key}{}{quote}{}{quote}", &found[2], self.css(value));
            }
            found[0].to_owned()
        });
        self.out.push_str(&replaced);
    }

    fn css<'a>(&mut self, css: &'a str) -> Cow<'a, str> {
        let patterns = self.patterns;
        let plain =
            patterns.hidden.replace_all(css, |found: &Captures<'_>| match (found.get(1), found.get(2)) {
                (Some(number), _) => u8::from_str_radix(number.as_str(), 16)
                    .ok()
                    .filter(|letter| letter.is_ascii_alphabetic() || b"@(:/".contains(letter))
                    .map_or_else(|| found[0].to_owned(), |letter| char::from(letter).to_string()),
                (_, Some(letter)) => letter.as_str().to_owned(),
                _ => found[0].to_owned(),
            });
        let before = self.removed;
        let mut removed = 0;
        let tame = patterns.import.replace_all(&plain, |_: &Captures<'_>| {
            removed += 1;
            ""
        });
        let tame = patterns.url.replace_all(&tame, |found: &Captures<'_>| {
            if found[1].starts_with('#') || found[1].to_ascii_lowercase().starts_with("data:") {
                return found[0].to_owned();
            }
            removed += 1;
            "none".to_owned()
        });
        let tame = patterns.scheme.replace_all(&tame, |_: &Captures<'_>| {
            removed += 1;
            "about:"
        });
        let tame = patterns.host.replace_all(&tame, |found: &Captures<'_>| {
            removed += 1;
            format!("{}/ /", &found[1])
        });
        self.removed = before + removed;
        // What was harmless stays as it was written.
        if removed == 0 { Cow::Borrowed(css) } else { Cow::Owned(tame.into_owned()) }
    }
}

/// Whether a link, in small letters, leads somewhere and does nothing else. What a browser makes of a scheme with
/// characters written as numbers or with blanks in it is not for us to find out.
fn only_leads(link: &str) -> bool {
    let start = link.split(['/', '?']).next().unwrap_or_default();
    let (scheme, is_one) = start.split_once(':').map_or((start, false), |(scheme, _)| (scheme, true));
    let plain = !scheme.replace("&amp;", "").contains('&');
    link.starts_with('#') || plain && (!is_one || ["http", "https", "mailto", "ftp"].contains(&scheme))
}

fn until<'a>(text: &'a str, end: &str) -> &'a str {
    text.find(end).map_or(text, |at| &text[..at + end.len()])
}

/// A tag up to its end, which is not within quotes.
fn tag_in(text: &str) -> &str {
    let mut open = None;
    for (at, letter) in text.char_indices() {
        match (open, letter) {
            (None, '>') => return &text[..=at],
            (None, '"' | '\'') => open = Some(letter),
            (Some(quote), letter) if quote == letter => open = None,
            _ => {}
        }
    }
    text
}

/// `style` of `<svg:style x="1">`; empty for a closing tag.
fn name_of(tag: &str) -> &str {
    let name = tag[1..].split(|c: char| c.is_whitespace() || c == '>' || c == '/').next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::alone;

    #[test]
    fn what_a_picture_needs_stays() {
        let svg = "<?xml version=\"1.0\"?>\n<!DOCTYPE svg PUBLIC \"-//W3C//DTD SVG 1.1//EN\" \
                   \"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd\">\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
                   xmlns:xlink=\"http://www.w3.org/1999/xlink\"><style>#a{fill:url(#g);content:\"\\2713\"}</style>\
                   <a href=\"#a:b\"/><a href=\"a&amp;b.html?c=d:e\"/><a href=\"mailto:a@b\"/>\
                   <a xlink:href=\"https://example.com/\"><text>url(http://in.a/label) @import x;</text></a>\
                   <image href='data:image/png;base64,AA//BB=='/><path marker-end=\"url(#m)\" d=\"M0,0\"/></svg>";
        assert_eq!(alone(svg), Ok((svg.to_owned(), 0)));
    }

    #[test]
    fn what_would_be_loaded_goes() {
        for bad in [
            "<?xml-stylesheet href=\"http://evil/x.css\" type=\"text/css\"?><svg/>",
            "<svg><style>@import \"http://evil/x.css\"; a{}</style></svg>",
            "<svg><style>a{background:url( 'http://evil/x.png' )}</style></svg>",
            "<svg><style>a{background:u\\72l(http:evil/x.png)}</style></svg>",
            "<svg><style>a{background:\\75 rl(//evil/x.png)}</style></svg>",
            "<svg><style>a{background:u\\rl(//evil/x.png)}</style></svg>",
            "<svg><style><![CDATA[a{background:image-set(\"//evil/x.png\" 1x)}]]></style></svg>",
            "<svg><rect style=\"fill:url(&quot;http://evil/x.svg#a&quot;)\"/></svg>",
            "<svg><rect fill=\"url(http://evil/x.svg#a)\"/></svg>",
            "<svg><image xlink:href=\"http://evil/x.png\"/></svg>",
            "<svg><img alt=\"a>b\" src='//evil/x.png'/></svg>",
            "<svg><a href=\"javascript:evil()\"/></svg>",
            "<svg><a href=\"&#106;avascript:evil()\"/></svg>",
            "<svg><a href=\"javascript&#58;evil()\"/></svg>",
            "<svg><a href=\"java\tscript:evil()\"/></svg>",
            "<svg><a href=\"javascript&colon;evil()\"/></svg>",
            "<svg><a href=\"vbscript:javascript\"/></svg>",
        ] {
            let (tame, removed) = alone(bad).unwrap();
            let loads = ["//evil", "http:evil", "script", "xml-stylesheet"];
            assert!(removed > 0 && !loads.iter().any(|word| tame.contains(word)), "{bad}\n{tame}");
        }
    }
}
