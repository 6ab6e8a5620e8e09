//! How a Node project is linted, type-checked and formatted.

use super::{
    manifest::{self, Manager, Manifest},
    tests::node_options,
};
use crate::{
    Facts, LintAsk, Plan, Scope,
    reporters::{REPORT, ReporterPlan},
};

const ESLINT: &[&str] = &[
    "eslint.config.js",
    "eslint.config.mjs",
    "eslint.config.cjs",
    "eslint.config.ts",
    "eslint.config.mts",
    "eslint.config.cts",
    ".eslintrc.js",
    ".eslintrc.cjs",
    ".eslintrc.json",
    ".eslintrc.yml",
    ".eslintrc.yaml",
    ".eslintrc",
];
const BIOME: &[&str] = &["biome.json", "biome.jsonc"];
const OXLINT: &[&str] = &[".oxlintrc.json", "oxlint.config.ts"];
const PRETTIER: &[&str] = &[
    ".prettierrc",
    ".prettierrc.json",
    ".prettierrc.yml",
    ".prettierrc.yaml",
    ".prettierrc.json5",
    ".prettierrc.js",
    ".prettierrc.mjs",
    ".prettierrc.cjs",
    ".prettierrc.ts",
    ".prettierrc.toml",
    "prettier.config.js",
    "prettier.config.mjs",
    "prettier.config.cjs",
    "prettier.config.ts",
];

/// A tool of the project, chosen by its configuration, the dependencies, or its being installed.
fn chosen(
    facts: &dyn Facts,
    manifest: &Manifest,
    known: &[(&'static str, &'static str, &[&str], &str)],
) -> Option<(&'static str, String)> {
    let by_config = known.iter().find_map(|(name, _, files, section)| {
        let file = manifest::first_of(facts, files);
        let section = manifest.has_section(section).then(|| "package.json".to_owned());
        file.or(section).map(|file| (*name, format!("{name} because of {file}")))
    });
    let by_dependency = || {
        known.iter().find_map(|(name, package, ..)| {
            manifest
                .dependencies
                .contains(*package)
                .then(|| (*name, format!("{name} because package.json depends on it")))
        })
    };
    let by_presence = || {
        known.iter().find_map(|(name, ..)| {
            manifest::bin(facts, name).map(|_| (*name, format!("{name} because it is installed")))
        })
    };
    by_config.or_else(by_dependency).or_else(by_presence)
}

/// The project's own program, or its plain name, whose absence is then told.
pub(super) fn program(facts: &dyn Facts, name: &str) -> String {
    manifest::bin(facts, name).map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// A plan that starts a tool of the project. Under Yarn's Plug'n'Play there is no `node_modules/.bin`: yarn knows.
pub(super) fn own(facts: &dyn Facts, name: &str, mut plan: Plan) -> Plan {
    let pnp = || manifest::ups().any(|above| facts.exists(&format!("{above}.pnp.cjs")));
    if manifest::bin(facts, name).is_none() && pnp() {
        let words = ["run", "--binaries-only", name].map(str::to_owned);
        plan.program = Manager::Yarn.program().to_owned();
        plan.args.splice(0..0, words);
        plan.env.extend(Manager::Yarn.env());
        plan.why.push(format!("{name} through yarn, because of .pnp.cjs"));
        return plan;
    }
    plan.program = program(facts, name);
    plan
}

/// The linter used when no script is, and why.
pub(super) fn linter(facts: &dyn Facts, manifest: &Manifest) -> Option<(&'static str, String)> {
    chosen(
        facts,
        manifest,
        &[
            ("eslint", "eslint", ESLINT, "eslintConfig"),
            ("biome", "@biomejs/biome", BIOME, ""),
            ("oxlint", "oxlint", OXLINT, ""),
        ],
    )
}

/// The formatter, and why.
pub(super) fn formatter(facts: &dyn Facts, manifest: &Manifest) -> Option<(&'static str, String)> {
    chosen(
        facts,
        manifest,
        &[("biome", "@biomejs/biome", BIOME, ""), ("prettier", "prettier", PRETTIER, "prettier")],
    )
}

/// The command that lints.
pub(super) fn lint(facts: &dyn Facts, ask: &LintAsk) -> Plan {
    let manifest = Manifest::read(facts);
    if ask.scope == Scope::Project
        && let Some(text) = manifest.script("lint")
    {
        return script(facts, &manifest, "lint", text, ask.fix);
    }
    // A missing linter is named by the one most projects mean.
    let (name, why) = linter(facts, &manifest)
        .unwrap_or_else(|| ("eslint", "eslint because no linter is configured".to_owned()));
    let mut args: Vec<&str> = match name {
        "biome" => vec!["lint", "--reporter=json", "--max-diagnostics=none"],
        "oxlint" => vec!["--format=json"],
        _ => vec!["--format", "json"],
    };
    match name {
        _ if !ask.fix => {}
        "biome" => args.push("--write"),
        _ => args.push("--fix"),
    }
    let target = match &ask.scope {
        Scope::Project => ".",
        Scope::File(file) => file,
    };
    args.push(target);
    let plan = Plan {
        runner: name,
        args: args.into_iter().map(str::to_owned).collect(),
        env: plain_env(),
        why: vec![why],
        ..Plan::default()
    };
    own(facts, name, plan)
}

/// The command that checks types, or why there is none.
pub(super) fn typecheck(facts: &dyn Facts) -> Result<Plan, String> {
    let manifest = Manifest::read(facts);
    for name in ["typecheck", "type-check"] {
        if let Some(text) = manifest.script(name) {
            return Ok(script(facts, &manifest, name, text, false));
        }
    }
    let config = facts.read("tsconfig.json");
    if config.is_none() && !manifest.dependencies.contains("typescript") {
        return Err(
            "there is no tsconfig.json, no dependency on typescript and no script named typecheck".to_owned()
        );
    }
    let (args, why): (&[&str], &str) = if config.as_deref().is_some_and(solution_style) {
        (
            &["-b", "--noEmit", "--pretty", "false"],
            "tsconfig.json only refers to other projects, so they are built",
        )
    } else {
        (&["--noEmit", "--pretty", "false"], "tsc because of tsconfig.json")
    };
    // The hook keeps what tsc notes for its next build out of the checkout.
    let mut env = plain_env();
    env.push(node_options(facts, false));
    let plan = Plan {
        runner: "tsc",
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env,
        inject: ReporterPlan { linked: linked(facts), ..linting(facts) }.for_node(),
        why: vec![why.to_owned()],
        ..Plan::default()
    };
    Ok(own(facts, "tsc", plan))
}

/// Whether projects that tsconfig.json refers to refer to others themselves.
fn linked(facts: &dyn Facts) -> bool {
    let references = |config: &str| -> Vec<String> {
        let config = facts.read(config).and_then(|text| manifest::jsonc(&text)).unwrap_or_default();
        let listed = config["references"].as_array().into_iter().flatten();
        listed.filter_map(|one| one["path"].as_str().map(str::to_owned)).collect()
    };
    references("tsconfig.json").iter().any(|path| {
        let path = path.trim_start_matches("./").trim_end_matches('/');
        let config = if path.ends_with(".json") { path.to_owned() } else { format!("{path}/tsconfig.json") };
        !references(&config).is_empty()
    })
}

/// Whether a tsconfig only refers to others: without `-b` nothing would be checked.
fn solution_style(text: &str) -> bool {
    let Some(config) = manifest::jsonc(text) else { return false };
    let listed = |name: &str| config.get(name).and_then(serde_json::Value::as_array);
    let refers = listed("references").is_some_and(|references| !references.is_empty());
    let own = listed("files").is_none_or(|files| !files.is_empty());
    refers && (!own || listed("include").is_some_and(Vec::is_empty))
}

/// What the reporters are told when findings are wanted.
fn linting(facts: &dyn Facts) -> ReporterPlan {
    ReporterPlan {
        root: facts.root().to_string_lossy().into_owned(),
        report: REPORT,
        lint: true,
        ..ReporterPlan::default()
    }
}

/// One of the project's own scripts, with the formatters of what it starts made to report.
fn script(facts: &dyn Facts, manifest: &Manifest, name: &str, text: &str, fix: bool) -> Plan {
    let (manager, why) = manifest.manager(facts);
    let mut told = linting(facts);
    if fix {
        told.args.insert("eslint", vec!["--fix".to_owned()]);
        told.args.insert("oxlint", vec!["--fix".to_owned()]);
        told.args.insert("biome", vec!["--write".to_owned()]);
    }
    let mut env = plain_env();
    env.extend(manager.env());
    env.push(node_options(facts, false));
    Plan {
        runner: "script",
        program: manager.program().to_owned(),
        args: manager.run(name, &[]),
        env,
        inject: told.for_node(),
        report: Some(REPORT.to_owned()),
        why: vec![format!("package.json defines the script {name}: {text}"), why],
        ..Plan::default()
    }
}

/// The command that formats one file, or why there is none.
pub(super) fn format(facts: &dyn Facts, file: &str, text: &[u8]) -> Result<Plan, String> {
    let manifest = Manifest::read(facts);
    let (name, why) = formatter(facts, &manifest)
        .ok_or("neither prettier nor biome is configured, in the dependencies or installed")?;
    let args = match name {
        "biome" => vec!["format".to_owned(), format!("--stdin-file-path={file}")],
        _ => vec!["--stdin-filepath".to_owned(), file.to_owned()],
    };
    let plan = Plan {
        runner: name,
        args,
        env: plain_env(),
        stdin: Some(text.to_vec()),
        why: vec![why],
        ..Plan::default()
    };
    Ok(own(facts, name, plan))
}

/// A project's script, run as it is.
pub(super) fn run_script(facts: &dyn Facts, manifest: &Manifest, name: &str) -> Plan {
    let (manager, why) = manifest.manager(facts);
    let args = match manager {
        Manager::Yarn => vec![name.to_owned()],
        _ => manager.run(name, &[]),
    };
    Plan {
        runner: manager.program(),
        program: manager.program().to_owned(),
        args,
        env: manager.env().into_iter().chain(plain_env()).collect(),
        merged: true,
        why: vec![why],
        ..Plan::default()
    }
}

fn plain_env() -> Vec<(String, String)> {
    vec![("NO_COLOR".to_owned(), "1".to_owned())]
}
