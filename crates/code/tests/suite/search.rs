//! The index: what ranks before what, and that it stays the same however it came about.

use code::{Facts, Filter, Index, Kind, Language, Reader};
use std::path::Path;

fn put(index: &mut Index, path: &str, source: &str) {
    let path = Path::new(path);
    let facts = Facts::of(&mut Reader::default(), Language::of_path(path).unwrap(), source.as_bytes());
    index.put(path, 1, &facts);
}

/// A hit as it is shown from a file with this content.
fn show(hit: &code::Hit, source: &str) -> code::Found {
    let read = |at: std::ops::Range<usize>| {
        let end = at.end.min(source.len());
        Some(source.as_bytes()[at.start.min(end)..end].to_vec())
    };
    hit.show(read).unwrap()
}

fn found(index: &mut Index, query: &str, sources: &[(&str, &str)]) -> Vec<String> {
    let (hits, total) = index.search(query, &Filter::default(), 20);
    assert_eq!(hits.len(), total.min(20));
    let place = |hit: &code::Hit| {
        let source = sources.iter().find(|(path, _)| Path::new(path) == &*hit.path).unwrap().1;
        let shown = show(hit, source);
        format!("{}:{}", shown.name, shown.line)
    };
    hits.iter().map(place).collect()
}

#[test]
fn a_name_ranks_before_a_mention() {
    let sources = [
        (
            "a.go",
            "package a\n\n// Run uses a reader.\nfunc Run(r io.Reader) {}\n\ntype LineReader struct{}\n\nfunc (l *LineReader) Next() {}\n",
        ),
        ("b.rs", "/// A reader of lines.\npub trait Reader { fn read_line(&self); }\n"),
        ("c.py", "class Other:\n    '''Nothing of that.'''\n    def reader_of(self): pass\n"),
    ];
    let mut index = Index::default();
    sources.iter().for_each(|(path, source)| put(&mut index, path, source));
    let names = found(&mut index, "Reader", &sources);
    assert_eq!(names[0], "Reader:2", "{names:?}");
    assert!(
        names.iter().position(|it| it == "LineReader:6") < names.iter().position(|it| it == "Run:4"),
        "{names:?}"
    );
    assert!(names.contains(&"Other.reader_of:3".to_owned()), "{names:?}");
    assert_eq!(found(&mut index, "readLine", &sources)[0], "Reader::read_line:2");
    let only = Filter { kinds: &[Kind::Struct], languages: &[Language::Go] };
    let (hits, total) = index.search("line reader", &only, 5);
    assert_eq!((hits.len(), total), (1, 1));
    assert!(index.search("zebra", &Filter::default(), 5).0.is_empty());
    assert!(index.search("", &Filter::default(), 5).0.is_empty());
}

/// What is called as the question is comes first, however long its documentation and however many have it in part.
#[test]
fn the_whole_name_comes_first() {
    let long = "// Words and words about something else, on and on and on until there are many of them.\n";
    let mut source = format!("package p\n\n{}func Parse() {{}}\n\n", long.repeat(5));
    source.push_str(&format!("{}func loadConfig() {{}}\n\n", long.repeat(5)));
    source.push_str(&format!("{}const X_OK = 1\n\n", long.repeat(5)));
    for n in 0..150 {
        source.push_str(&format!(
            "func Parse{n}x() {{}}\n\nfunc Config{n}Load() {{}}\n\nconst OK{n}_OK = 1\n\n"
        ));
    }
    let sources = [("a.go", source.as_str())];
    let mut index = Index::default();
    put(&mut index, "a.go", &source);
    for (query, name) in [
        ("Parse", "Parse:8"),
        ("parse", "Parse:8"),
        ("loadConfig", "loadConfig:15"),
        ("load_config", "loadConfig:15"),
        ("load-config", "loadConfig:15"),
        ("load config", "loadConfig:15"),
        ("loadconfig", "loadConfig:15"),
        ("X_OK", "X_OK:22"),
    ] {
        assert_eq!(found(&mut index, query, &sources)[0], name, "{query}");
    }
    // and is gone when it has gone
    put(&mut index, "a.go", "package p\n\nfunc ParseAll() {}\n");
    assert_eq!(found(&mut index, "parse", &[("a.go", "package p\n\nfunc ParseAll() {}\n")]), ["ParseAll:3"]);
}

#[test]
fn names_within_a_declaration_are_found() {
    let sources = [
        ("a.rs", "enum Fruit {\n    /// Sweet.\n    Cherry(u8),\n}\n"),
        ("b.ts", "enum Colour {\n  Crimson = 1,\n  Teal,\n}\nconst Kiwi = 1, Mango = 2;\n"),
        ("c.go", "package p\n\nvar Walnut, Hazel = 1, 2\n"),
        ("d.py", "almond = pecan = 1\n"),
        ("E.java", "enum Tree {\n    /** Hard. */\n    MAPLE(1),\n    BIRCH;\n}\n"),
        (
            "f.c",
            "typedef enum { PLUM, FIG = 2 } fruit;\nstatic const struct ops lemon_ops = {\n};\nint lime, *papaya = 0, guava[2];\n",
        ),
        (
            "g.js",
            "module.exports = class Quince {\n  pare() {}\n};\nexports.Medlar = class {\n  blet() {}\n};\n",
        ),
        ("h.js", "module.exports = {\n  steam(a) {},\n  fry: async () => {},\n  more: { poach() {} },\n};\n"),
        (
            "i.ts",
            "export const acts = {\n  roast: () => 1,\n} satisfies Acts;\ndeclare global {\n  interface Oven { heat: number }\n}\n",
        ),
        (
            "j.ts",
            "export default {\n  methods: {\n    simmer() {},\n  },\n};\nconst Pan = class { wash() {} };\n",
        ),
        ("K.java", "class K { private int sieve, ladle = 2; }\n"),
    ];
    let mut index = Index::default();
    sources.iter().for_each(|(path, source)| put(&mut index, path, source));
    for (query, name) in [
        ("cherry", "Fruit::Cherry:3"),
        ("sweet", "Fruit::Cherry:3"),
        ("crimson", "Colour.Crimson:2"),
        ("teal", "Colour.Teal:3"),
        ("mango", "Mango:5"),
        ("hazel", "Hazel:3"),
        ("pecan", "pecan:1"),
        ("maple", "Tree.MAPLE:3"),
        ("hard", "Tree.MAPLE:3"),
        ("fig", "fruit.FIG:1"),
        ("lemon ops", "lemon_ops:2"),
        ("lime", "lime:4"),
        ("papaya", "papaya:4"),
        ("guava", "guava:4"),
        ("quince", "Quince:1"),
        ("pare", "Quince.pare:2"),
        ("medlar", "Medlar:4"),
        ("blet", "Medlar.blet:5"),
        ("steam", "steam:2"),
        ("fry", "fry:3"),
        ("poach", "poach:4"),
        ("roast", "acts.roast:2"),
        ("oven", "Oven:5"),
        ("simmer", "simmer:3"),
        ("pan", "Pan:6"),
        ("wash", "Pan.wash:6"),
        ("ladle", "K.ladle:1"),
    ] {
        assert_eq!(found(&mut index, query, &sources)[0], name);
    }
}

/// The documentation that is shown is what comments say, not what decorators and attributes hold.
#[test]
fn decorators_are_no_documentation() {
    for (path, source, doc) in [
        ("a.ts", "@Component({\n  selector: 'x',\n})\nexport class Walrus {}\n", ""),
        ("a.ts", "/**\n * Swims.\n */\n@Component({\n  selector: 'x',\n})\nclass Walrus {}\n", "Swims."),
        ("a.py", "@route(\n    '/x',\n)\ndef walrus(): pass\n", ""),
        ("a.py", "# Dives.\n@route(\n    '/x',\n)\ndef walrus(): pass\n", "Dives."),
        ("a.rs", "#[cfg_attr(\n    test,\n    derive(Debug)\n)]\n/// Eats.\nstruct Walrus;\n", "Eats."),
        ("a.go", "package a\n\n/*\nWalrus sleeps.\n*/\nfunc Walrus() {}\n", "Walrus sleeps."),
        ("a.c", "/* Dozes. */\nint walrus(void);\n", "Dozes."),
    ] {
        let mut index = Index::default();
        put(&mut index, path, source);
        let (hits, _) = index.search("walrus", &Filter::default(), 1);
        assert_eq!(show(&hits[0], source).doc, doc, "{source}");
    }
}

/// Changed again and again, it finds what one made from the last state finds, and does not grow.
#[test]
fn changes_leave_nothing_behind() {
    let source = |round: usize, file: usize| {
        let functions: String =
            (0..20).map(|n| format!("// Word{n} of round{round}.\nfunc F{file}x{n}() {{}}\n")).collect();
        format!("package p\n{functions}")
    };
    let name = |file: usize| format!("f{file}.go");
    let mut index = Index::default();
    for file in 0..30 {
        put(&mut index, &name(file), &source(0, file));
    }
    index.shrink();
    let size = index.size();
    for round in 1..40 {
        for file in 0..30 {
            put(&mut index, &name(file), &source(round, file));
        }
        assert_eq!(index.search(&format!("round{}", round - 1), &Filter::default(), 5).1, 0);
        assert_eq!(index.search(&format!("round{round}"), &Filter::default(), 5).1, 600);
    }
    index.shrink();
    assert!(index.size() < size * 8, "{} after {size}", index.size());
    assert_eq!((index.len(), index.files().len()), (600, 30));
    for file in 0..30 {
        index.remove(Path::new(&name(file)));
    }
    assert!(index.is_empty() && index.search("word3", &Filter::default(), 5).0.is_empty());
}

/// A sentence is asked for what it says, not for the words that hold it together.
#[test]
fn the_small_words_of_a_sentence_tell_nothing() {
    let source = "package a\n\n// Where this is, and what it does with the other.\nfunc Idle() {}\n\n\
                  // Decides.\nfunc pickServer() {}\n\nfunc toText() {}\n\nfunc A() {}\n";
    let mut index = Index::default();
    put(&mut index, "a.go", source);
    let mut ask = |query: &str| found(&mut index, query, &[("a.go", source)]).join(" ");
    assert_eq!(ask("Where is it that the server decides?"), "pickServer:7");
    assert_eq!(ask("where does it go from toText"), "toText:9");
    assert_eq!(ask("how does a server get picked"), "pickServer:7");
    // few words are meant as they stand, and so are these when there are no others
    assert_eq!(ask("to text"), "toText:9");
    assert_eq!(ask("where is this"), "Idle:4");
    assert_eq!(ask("what is it that this does"), "Idle:4");
}

/// Words that many symbols have are counted in another way than words of few: the answers are of one kind.
#[test]
fn common_words_are_counted_as_rare_ones_are() {
    let source = |file: usize| {
        let one = |n: usize| {
            let rare = if n == 7 { " rare" } else { "" };
            format!("// Common{rare} thing.\nfunc F{file}x{n}() {{}}\n")
        };
        format!("package p\n{}", (0..100).map(one).collect::<String>())
    };
    let mut index = Index::default();
    for file in 0..4 {
        put(&mut index, &format!("f{file}.go"), &source(file));
    }
    let go = Filter { kinds: &[Kind::Function], languages: &[Language::Go] };
    let other = Filter { kinds: &[], languages: &[Language::Rust] };
    let mut ask = |query: &str, filter: &Filter<'_>, gone: bool| {
        if gone {
            index.remove(Path::new("f0.go"));
        }
        let (hits, total) = index.search(query, filter, 3);
        let place = |hit: &code::Hit| {
            let path = hit.path.display().to_string();
            let file: usize = path[1..2].parse().unwrap();
            format!("{path}:{}", show(hit, &source(file)).line)
        };
        (hits.iter().map(place).collect::<Vec<_>>().join(" "), total)
    };
    // again and again: nothing is left of the question before
    for filter in [&Filter::default(), &go, &Filter::default()] {
        let rare = ("f0.go:17 f1.go:17 f2.go:17".to_owned(), 4);
        assert_eq!(ask("rare", filter, false), rare);
        assert_eq!(ask("common", filter, false), ("f0.go:3 f0.go:5 f0.go:7".to_owned(), 400));
        assert_eq!(ask("common rare", filter, false), (rare.0, 400));
    }
    assert_eq!(ask("common rare", &other, false), (String::new(), 0));
    assert_eq!(ask("rare", &other, false), (String::new(), 0));
    assert_eq!(ask("common", &Filter::default(), true), ("f1.go:3 f1.go:5 f1.go:7".to_owned(), 300));
    assert_eq!(ask("rare", &Filter::default(), false).1, 3);
}
