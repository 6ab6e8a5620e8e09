//! Assignments: literals go, code stays.

use scrub::Scrubber;

#[test]
fn literal_values_of_secret_names_go() {
    let scrubber = Scrubber::default();
    for (text, expected) in [
        ("PASSWORD=hunter2", "PASSWORD=[REDACTED:assignment]"),
        ("export DB_PASSWORD=\"correcthorse\"", "export DB_PASSWORD=\"[REDACTED:assignment]\""),
        ("API_KEY=abcdef123456 OTHER=1", "API_KEY=[REDACTED:assignment] OTHER=1"),
        ("MY_TOKEN='zq81-kkv0-1x'", "MY_TOKEN='[REDACTED:assignment]'"),
        ("SECRET_KEY_BASE=0123456789abcdef0123", "SECRET_KEY_BASE=[REDACTED:assignment]"),
        ("     3\tSMTP_PASS=abc123xyz", "     3\tSMTP_PASS=[REDACTED:assignment]"),
        (".env:3:CLIENT_SECRET=kJ8s9dkkQQ", ".env:3:CLIENT_SECRET=[REDACTED:assignment]"),
        ("password=hunter2x&user=me", "password=[REDACTED:assignment]&user=me"),
        ("api_key = \"9f8a7b6c5d4e3f2a1b0c\"", "api_key = \"[REDACTED:assignment]\""),
        (
            "const API_KEY: &str = \"9f8a7b6c5d4e3f2a1b0c\";",
            "const API_KEY: &str = \"[REDACTED:assignment]\";",
        ),
        ("  \"authToken\": \"Zk3vP0q9Lw7xT2sB5nM8\",", "  \"authToken\": \"[REDACTED:assignment]\","),
        ("{\\\"token\\\": \\\"Zk3vP0q9Lw7xT2sB5nM8\\\"}", "{\\\"token\\\": \\\"[REDACTED:assignment]\\\"}"),
        ("password: \"Tr0ub4dor&3\"", "password: \"[REDACTED:assignment]\""),
        ("  secret: Zk3vP0q9Lw7xT2sB5nM8", "  secret: [REDACTED:assignment]"),
        (
            "os.environ[\"API_TOKEN\"] = \"Zk3vP0q9Lw7xT2sB5nM8\"",
            "os.environ[\"API_TOKEN\"] = \"[REDACTED:assignment]\"",
        ),
        ("//npm.test/:_authToken=Zk3vP0q9Lw7xT2sB5nM8", "//npm.test/:_authToken=[REDACTED:assignment]"),
    ] {
        assert_eq!(scrubber.scrub(text), expected, "{text}");
    }
}

#[test]
fn code_types_variables_and_placeholders_stay() {
    let scrubber = Scrubber::default();
    for text in [
        "password = get_password()",
        "token: str",
        "token: Option<String>,",
        "def login(user, password: str = None, token=None):",
        "API_KEY = os.environ[\"API_KEY\"]",
        "API_KEY=os.environ['API_KEY']",
        "const token = process.env.TOKEN_V2_BETA1;",
        "TOKEN=${TOKEN:-default}",
        "TOKEN=$(cat /run/token1)",
        "PASSWORD=<your password>",
        "PASSWORD=changeme",
        "API_KEY=your-api-key-here",
        "API_KEY=xxxxxxxxxxxx",
        "SECRET={{ secrets.DEPLOY }}",
        "password: ${{ secrets.DB_PASSWORD }}",
        "MAX_TOKENS=100000",
        "NEXT_TOKEN=abcdef123456",
        "next_token = \"9f8a7b6c5d4e3f2a1b0c\"",
        "token_count = 123456789",
        "if token == \"9f8a7b6c5d4e3f2a1b0c\" {",
        "TOKEN_FILE=/run/secrets/token1234",
        "SSH_KEY=~/.ssh/id_ed25519",
        "let token = Token::new(1);",
        "token = base64.b64encode(secrets2)",
        "secret = hmac_sha256_v2_secret",
        "key=9f8a7b6c5d4e3f2a1b0c",
        "public_key = \"9f8a7b6c5d4e3f2a1b0c\"",
        "password: \"must have 8 characters and 1 digit\"",
        "  \"password\": \"password\",",
        "token_type = \"application/x-www-form-urlencoded\"",
        "foo(api_key=api_key2, token=tok1)",
        "#define TOKEN TOKEN_V2",
        "enum { TOKEN=IDENTIFIER, SECRET=OTHERNAME };",
        "secret: { name: \"abc\" }",
        "the token: a string of 20 characters",
        "cmd.Env = append(cmd.Env, \"PWD=\"+dir, \"DB_PASSWORD=\"+build.Default, \"X\")",
        "PWD=somewhere1",
        "PASSWORD=",
        "token:",
        "secret_access_key=",
    ] {
        assert_eq!(scrubber.scrub(text), text);
    }
}

#[test]
fn operators_add_patterns() {
    let scrubber = Scrubber::builder()
        .pattern("ticket", "TCK-[0-9]{6}")
        .and_then(|builder| builder.pattern("badge", "badge=([0-9]+)"))
        .expect("both compile")
        .build();
    assert_eq!(scrubber.scrub("TCK-123456 badge=77 x"), "[REDACTED:ticket] badge=[REDACTED:badge] x");
    let hits = scrubber.scrub_counted("TCK-123456 TCK-000000").hits;
    assert_eq!(hits.count("ticket"), 2);
    assert_eq!(hits.iter().map(|hit| hit.bytes).sum::<u64>(), 20);
}

#[test]
fn bad_patterns_are_refused_with_their_name() {
    for (name, regex, part) in [
        ("a b", "x", "a b"),
        ("open", "(", "open"),
        ("all", "x*", "matches the empty text"),
        ("", "x", "letters"),
    ] {
        let error = Scrubber::builder().pattern(name, regex).err().expect("refused").to_string();
        assert!(error.contains(part), "{error}");
    }
}
