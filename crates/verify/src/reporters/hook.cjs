'use strict';
// Loaded through NODE_OPTIONS into every Node process below the command that was planned. In the process of a
// known test runner, linter or compiler it adds the flags that make it report; in every other it does nothing.
// A runner's children (the project's own tests) do not inherit it.

const path = require('node:path');
const { isMainThread } = require('node:worker_threads');

const here = (name) => path.join(__dirname, name);

function mainFile() {
  try {
    return require('node:fs').realpathSync(process.argv[1]).replace(/\\/g, '/');
  } catch {
    return '';
  }
}

/** Adds flags where options are still read: before a bare `--`. */
function add(...flags) {
  const end = process.argv.indexOf('--', 2);
  process.argv.splice(end === -1 ? process.argv.length : end, 0, ...flags);
}

/** Takes an option and its value away, in each of its spellings. */
function drop(...names) {
  for (let at = process.argv.length - 1; at >= 2; at--) {
    const [flag, value] = process.argv[at].split('=', 2);
    if (names.includes(flag)) process.argv.splice(at, value === undefined ? 2 : 1);
  }
}

const has = (flag) => process.argv.some((word) => word === flag || word.startsWith(`${flag}=`));
const extra = (plan, name) => (plan.args && plan.args[name]) || [];

/** `tsc --noEmit` still writes what it learned for the next build into the checkout: into nothing instead. */
function forgetBuildInfo() {
  const fs = require('node:fs');
  const { openSync } = fs;
  fs.openSync = (file, flags, ...rest) => {
    const notes = flags === 'w' && String(file).endsWith('.tsbuildinfo');
    return openSync(notes ? '/dev/null' : file, flags, ...rest);
  };
}

const takeNoEmit = () => process.argv.splice(process.argv.indexOf('--noEmit'), 1);

/** From version 7 on tsc is another program's launcher: it is told where not to write, or works on a copy. */
function keepNative(plan) {
  if (/^--?b(?:uild)?$/i.test(process.argv[2] || '')) {
    if (require('./mirror.cjs').moveInto(plan.root) && plan.linked) takeNoEmit();
    return;
  }
  const { spawnSync } = require('node:child_process');
  const options = { encoding: 'utf8', maxBuffer: 1 << 26 };
  const asked = spawnSync(process.execPath, [...process.argv.slice(1), '--showConfig'], options);
  const { compilerOptions } = JSON.parse(asked.stdout);
  if (compilerOptions?.incremental || compilerOptions?.composite) add('--tsBuildInfoFile', '/dev/null');
}

/** Which program this is, and what makes it report. */
const PROGRAMS = [
  {
    name: 'jest',
    tests: true,
    main: /\/node_modules\/(?:jest|jest-cli)\/bin\/jest(?:\.js)?$|\/react-scripts\/(?:bin\/react-scripts\.js|scripts\/test\.js)$/,
    report(plan) {
      if (/react-scripts\.js$/.test(process.argv[1]) && process.argv[2] !== 'test') return;
      drop('--reporters');
      add('--reporters=default', `--reporters=${here('jest.cjs')}`, ...extra(plan, 'jest'));
      if (!has('--watchAll')) add('--watchAll=false');
    },
  },
  {
    name: 'vitest',
    tests: true,
    main: /\/node_modules\/vitest\/(?:dist\/cli[^/]*|vitest\.mjs)$/,
    report(plan) {
      if (/^(?:list|bench|init)$/.test(process.argv[2] || '')) return;
      if (!has('--reporter')) add('--reporter=default');
      add(`--reporter=${here('vitest.mjs')}`, '--includeTaskLocation', '--watch=false', ...extra(plan, 'vitest'));
    },
  },
  {
    name: 'mocha',
    tests: true,
    main: /\/node_modules\/mocha\/(?:bin\/_?mocha(?:\.js)?|lib\/cli\/cli\.js)$/,
    report(plan) {
      drop('--reporter', '-R');
      add('--reporter', here('mocha.cjs'), ...extra(plan, 'mocha'));
    },
  },
  {
    name: 'eslint',
    main: /\/node_modules\/eslint\/bin\/eslint\.js$/,
    report(plan) {
      if (!plan.lint) return;
      drop('-f', '--format', '-o', '--output-file');
      add('--format', here('eslint.cjs'), ...extra(plan, 'eslint'));
    },
  },
  {
    name: 'biome',
    main: /\/node_modules\/@biomejs\/biome\/bin\/biome$/,
    report(plan) {
      if (!plan.lint || !/^(?:lint|check|ci)$/.test(process.argv[2] || '')) return;
      drop('--reporter');
      add('--reporter=json', '--max-diagnostics=none', ...extra(plan, 'biome'));
    },
  },
  {
    name: 'oxlint',
    main: /\/node_modules\/oxlint\/(?:bin\/oxlint|dist\/cli\.js)$/,
    report(plan) {
      if (!plan.lint) return;
      drop('-f', '--format');
      add('--format=json', ...extra(plan, 'oxlint'));
    },
  },
  {
    name: 'tsc',
    // Two versions are often installed side by side, one of them under another name.
    main: /\/node_modules\/(?:typescript[\w.-]*|vue-tsc)\/bin\/(?:vue-)?tsc(?:\.js)?$/,
    report(plan, main) {
      if (plan.lint && !has('--pretty')) add('--pretty', 'false');
      if (!plan.lint || !has('--noEmit')) return;
      if (require('node:fs').existsSync(path.join(path.dirname(main), '../lib/getExePath.js'))) keepNative(plan);
      else if (plan.linked) {
        takeNoEmit();
        require('./aside.cjs').keepAside();
      } else forgetBuildInfo();
    },
  },
];

/** Keeps what the runner starts free of us. */
function leave() {
  const ours = [here('hook.cjs'), here('node_test.mjs')];
  const kept = (process.env.NODE_OPTIONS || '')
    .split(/\s+(?=--)/)
    .filter((word) => !ours.some((file) => word.includes(file)) && word !== '--test-reporter-destination=stdout')
    .join(' ');
  if (kept) process.env.NODE_OPTIONS = kept;
  else delete process.env.NODE_OPTIONS;
}

/** The tests asked for, as Node selects them. */
function namePatterns(plan) {
  // Up to Node 21 a pattern is compared with each title on the way down, later with the whole name.
  const whole = Number(process.versions.node.split('.')[0]) >= 22;
  const titles = (plan.only || []).flatMap((id) => (whole ? [id.path.join(' ')] : id.path));
  const escaped = titles.map((title) => title.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'));
  return [...new Set(escaped)].map((title) => `--test-name-pattern=^${title}$`);
}

/**
 * `node --test` reads its reporters before any hook can speak. When the project names reporters of its own,
 * ours cannot be added through NODE_OPTIONS without a destination for each, so the command is started again
 * with both.
 */
function testAgain(plan) {
  const mine = `--test-reporter=${here('node_test.mjs')}`;
  const destinations = process.execArgv.filter((word) => word.startsWith('--test-reporter-destination')).length;
  const reporters = process.execArgv.filter((word) => /^--test-reporter(?:=|$)/.test(word)).length;
  const flags = reporters ? [] : ['--test-reporter=spec'];
  for (let missing = Math.max(reporters, 1) - destinations; missing > 0; missing--) {
    flags.push('--test-reporter-destination=stdout');
  }
  flags.push(mine, '--test-reporter-destination=stdout', ...namePatterns(plan));
  const files = extra(plan, 'node');
  const rest = files.length ? files : process.argv.slice(1);
  const { spawnSync } = require('node:child_process');
  const done = spawnSync(process.execPath, [...process.execArgv, ...flags, ...rest], { stdio: 'inherit' });
  process.exit(done.status ?? 1);
}

/**
 * In the process of one file under `node --test`: tells which line of it printed what, for Node's runner knows
 * only the file, and when a test ends the process, for Node then counts the file as passed.
 */
function listen() {
  const { clip, emit, frames } = require('./report.cjs');
  const file = mainFile();
  emit({ ev: 'open', unit: file });
  for (const stream of [process.stdout, process.stderr]) {
    const write = stream.write;
    stream.write = function (chunk, ...rest) {
      if (typeof chunk === 'string') {
        const place = frames(new Error().stack).find((frame) => frame[0] === file);
        if (place) emit({ ev: 'output', unit: file, line: place[1], text: clip(chunk) });
      }
      return write.call(this, chunk, ...rest);
    };
  }
  const exit = process.exit;
  process.exit = function (code) {
    const usual = Error.stackTraceLimit;
    Error.stackTraceLimit = 60;
    const { stack } = new Error();
    Error.stackTraceLimit = usual;
    if (stack.includes('node:internal/test_runner/')) {
      const message = `process.exit(${code ?? ''}) was called in a test; the tests after it did not run`;
      emit({ ev: 'problem', kind: 'crash', unit: file, message, frames: frames(stack) });
    }
    return exit.call(this, code);
  };
  process.once('exit', () => emit({ ev: 'close', unit: file }));
}

function act() {
  const plan = JSON.parse(require('node:fs').readFileSync(here('plan.json'), 'utf8'));
  const mine = here('node_test.mjs');
  const reporting = [process.env.NODE_OPTIONS || '', ...process.execArgv].some((word) => word.includes(mine));
  if (process.execArgv.includes('--test') && !process.env.NODE_TEST_CONTEXT) {
    if (!plan.lint && !reporting) testAgain(plan);
    return;
  }
  if (process.env.NODE_TEST_CONTEXT) {
    leave();
    listen();
    return;
  }
  const main = mainFile();
  const program = PROGRAMS.find((known) => known.main.test(main));
  if (!program) return;
  leave();
  program.report(plan, main);
  if (!plan.lint && program.tests) require('./report.cjs').emit({ ev: 'found', runner: program.name });
}

if (isMainThread) {
  try {
    act();
  } catch {
    // The runner then runs as the project wrote it, and the missing report says that it could not be read.
  }
}
