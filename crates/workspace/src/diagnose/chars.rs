//! Characters that look like others, or like nothing.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What an ASCII reader takes a character for, if it is easily taken for something else.
pub(super) fn alike(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{2032}' | '\u{02BC}' | '\u{FF07}' => "'",
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{2033}' | '\u{FF02}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FF0D}' => "-",
        '\u{2026}' => "...",
        '\u{00D7}' => "x",
        '\u{037E}' => ";",
        '\u{FF01}'..='\u{FF5E}' => {
            const ASCII: &str = "!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";
            let at = (u32::from(c) - 0xFF01) as usize;
            &ASCII[at..=at]
        }
        '\u{0370}'..='\u{052F}' => letter(c)?,
        _ => return None,
    })
}

/// Letters of Greek and of Cyrillic.
fn letter(c: char) -> Option<&'static str> {
    const THEIRS: &str = "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαικνορυχАВЕЅІЈКМНОРСТУХаеорсухіјѕһԁӏ";
    const PLAIN: &str = "ABEZHIKMNOPTYXaikvopuxABESIJKMHOPCTYXaeopcyxijshdl";
    let at = THEIRS.chars().position(|their| their == c)?;
    PLAIN.get(at..=at)
}

/// A character as people find it again: what it is called or shows, and its number.
pub(super) fn spelled(c: char) -> String {
    let number = format!("U+{:04X}", u32::from(c));
    let script = match c {
        '\u{0370}'..='\u{03FF}' => "Greek ",
        '\u{0400}'..='\u{052F}' => "Cyrillic ",
        '\u{FF01}'..='\u{FF5E}' => "full-width ",
        _ => "",
    };
    match name(c) {
        Some(name) => format!("{name} ({number})"),
        None if c.is_control() => format!("control character ({number})"),
        None => format!("{script}{c} ({number})"),
    }
}

/// The name of a character that shows nothing.
fn name(c: char) -> Option<&'static str> {
    Some(match c {
        '\t' => "tab",
        ' ' => "space",
        '\u{0B}' => "LINE TABULATION",
        '\u{0C}' => "FORM FEED",
        '\r' => "CARRIAGE RETURN",
        '\u{85}' => "NEXT LINE",
        '\u{A0}' => "NO-BREAK SPACE",
        '\u{AD}' => "SOFT HYPHEN",
        '\u{1680}' => "OGHAM SPACE MARK",
        '\u{2000}' => "EN QUAD",
        '\u{2001}' => "EM QUAD",
        '\u{2002}' => "EN SPACE",
        '\u{2003}' => "EM SPACE",
        '\u{2004}' => "THREE-PER-EM SPACE",
        '\u{2005}' => "FOUR-PER-EM SPACE",
        '\u{2006}' => "SIX-PER-EM SPACE",
        '\u{2007}' => "FIGURE SPACE",
        '\u{2008}' => "PUNCTUATION SPACE",
        '\u{2009}' => "THIN SPACE",
        '\u{200A}' => "HAIR SPACE",
        '\u{200B}' => "ZERO WIDTH SPACE",
        '\u{200C}' => "ZERO WIDTH NON-JOINER",
        '\u{200D}' => "ZERO WIDTH JOINER",
        '\u{200E}' => "LEFT-TO-RIGHT MARK",
        '\u{200F}' => "RIGHT-TO-LEFT MARK",
        '\u{2028}' => "LINE SEPARATOR",
        '\u{2029}' => "PARAGRAPH SEPARATOR",
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => "BIDIRECTIONAL CONTROL",
        '\u{202F}' => "NARROW NO-BREAK SPACE",
        '\u{205F}' => "MEDIUM MATHEMATICAL SPACE",
        '\u{2060}' => "WORD JOINER",
        '\u{3000}' => "IDEOGRAPHIC SPACE",
        '\u{FE0F}' => "VARIATION SELECTOR-16",
        '\u{FEFF}' => "ZERO WIDTH NO-BREAK SPACE",
        _ => return None,
    })
}

/// White space, and what shows nothing.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || !c.is_ascii() && name(c).is_some()
}

/// The letter and the mark that a character is made of, when it is made of two.
pub(super) fn parts(c: char) -> Option<(char, char)> {
    static ALL: LazyLock<HashMap<char, (char, char)>> = LazyLock::new(|| {
        let row = |&(mark, whole, letter): &(char, &'static str, &'static str)| {
            whole.chars().zip(letter.chars()).map(move |(whole, letter)| (whole, (letter, mark)))
        };
        MARKED.iter().flat_map(row).collect()
    });
    let may = matches!(c, '\u{C0}'..='\u{233}' | '\u{386}'..='\u{4F9}' | '\u{1EA0}'..='\u{1EF9}' | '\u{304B}'..='\u{30FE}');
    if may { ALL.get(&c).copied() } else { None }
}

/// By mark: characters, and the letters that they are without it. Of Latin, Greek, Cyrillic and Japanese, those in use.
const MARKED: &[(char, &str, &str)] = &[
    ('\u{300}', "ÀÈÌÒÙàèìòùǛǜǸǹЀЍѐѝẦầẰằỀềỒồỜờỪừỲỳ", "AEIOUaeiouÜüNnЕИеиÂâĂăÊêÔôƠơƯưYy"),
    (
        '\u{301}',
        "ÁÉÍÓÚÝáéíóúýĆćĹĺŃńŔŕŚśŹźǗǘǴǵǺǻǼǽǾǿΆΈΉΊΌΎΏΐάέήίΰόύώЃЌѓќẤấẮắẾếỐốỚớỨứ",
        "AEIOUYaeiouyCcLlNnRrSsZzÜüGgÅåÆæØøΑΕΗΙΟΥΩϊαεηιϋουωГКгкÂâĂăÊêÔôƠơƯư",
    ),
    ('\u{302}', "ÂÊÎÔÛâêîôûĈĉĜĝĤĥĴĵŜŝŴŵŶŷẬậỆệỘộ", "AEIOUaeiouCcGgHhJjSsWwYyẠạẸẹỌọ"),
    ('\u{303}', "ÃÑÕãñõĨĩŨũẪẫẴẵẼẽỄễỖỗỠỡỮữỸỹ", "ANOanoIiUuÂâĂăEeÊêÔôƠơƯưYy"),
    ('\u{304}', "ĀāĒēĪīŌōŪūǕǖǞǟǠǡǢǣǬǭȪȫȬȭȰȱȲȳӢӣӮӯ", "AaEeIiOoUuÜüÄäȦȧÆæǪǫÖöÕõȮȯYyИиУу"),
    ('\u{306}', "ĂăĔĕĞğĬĭŎŏŬŭЎЙйўӁӂӐӑӖӗẶặ", "AaEeGgIiOoUuУИиуЖжАаЕеẠạ"),
    ('\u{307}', "ĊċĖėĠġİŻżȦȧȮȯ", "CcEeGgIZzAaOo"),
    ('\u{308}', "ÄËÏÖÜäëïöüÿŸΪΫϊϋЁЇёїӒӓӚӛӜӝӞӟӤӥӦӧӪӫӬӭӰӱӴӵӸӹ", "AEIOUaeiouyYΙΥιυЕІеіАаӘәЖжЗзИиОоӨөЭэУуЧчЫы"),
    ('\u{309}', "ẢảẨẩẲẳẺẻỂểỈỉỎỏỔổỞởỦủỬửỶỷ", "AaÂâĂăEeÊêIiOoÔôƠơUuƯưYy"),
    ('\u{30A}', "ÅåŮů", "AaUu"),
    ('\u{30B}', "ŐőŰűӲӳ", "OoUuУу"),
    ('\u{30C}', "ČčĎďĚěĽľŇňŘřŠšŤťŽžǍǎǏǐǑǒǓǔǙǚǦǧǨǩǮǯǰȞȟ", "CcDdEeLlNnRrSsTtZzAaIiOoUuÜüGgKkƷʒjHh"),
    ('\u{30F}', "ȀȁȄȅȈȉȌȍȐȑȔȕ", "AaEeIiOoRrUu"),
    ('\u{311}', "ȂȃȆȇȊȋȎȏȒȓȖȗ", "AaEeIiOoRrUu"),
    ('\u{323}', "ẠạẸẹỊịỌọỢợỤụỰựỴỵ", "AaEeIiOoƠơUuƯưYy"),
    ('\u{326}', "ȘșȚț", "SsTt"),
    ('\u{327}', "ÇçĢģĶķĻļŅņŖŗŞşŢţȨȩ", "CcGgKkLlNnRrSsTtEe"),
    ('\u{328}', "ĄąĘęĮįŲųǪǫ", "AaEeIiUuOo"),
    (
        '\u{3099}',
        "がぎぐげござじずぜぞだぢづでどばびぶべぼゔゞガギグゲゴザジズゼゾダヂヅデドバビブベボヴヷヸヹヺヾ",
        "かきくけこさしすせそたちつてとはひふへほうゝカキクケコサシスセソタチツテトハヒフヘホウワヰヱヲヽ",
    ),
    ('\u{309A}', "ぱぴぷぺぽパピプペポ", "はひふへほハヒフヘホ"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_together() {
        for (mark, whole, letters) in MARKED {
            assert_eq!(whole.chars().count(), letters.chars().count(), "{mark:?}");
        }
        assert_eq!(
            (parts('é'), parts('が'), parts('x')),
            (Some(('e', '\u{301}')), Some(('か', '\u{3099}')), None)
        );
        let plain = |text: &str| text.chars().filter_map(alike).collect::<String>();
        assert_eq!(plain("ΟΧοχ"), "OXox");
        assert_eq!(plain("аеохӏԁ"), "aeoxld");
    }
}
