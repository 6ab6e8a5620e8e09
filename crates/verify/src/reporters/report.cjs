'use strict';
// Shared by the reporters of every JavaScript runner: one event per line into the report that plan.json names.
// It needs Node's standard library only, and nothing here may ever throw into the runner: a report that
// cannot be written is missing or short, and whoever reads it says so.

const fs = require('node:fs');
const path = require('node:path');
const util = require('node:util');
const { fileURLToPath } = require('node:url');

const plan = JSON.parse(fs.readFileSync(path.join(__dirname, 'plan.json'), 'utf8'));
const LONGEST = 4000;
const FRAMES = 12;
const ANSI = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

let descriptor;

function emit(...events) {
  try {
    if (descriptor === undefined) descriptor = fs.openSync(path.join(__dirname, plan.report), 'a');
    const run = String(process.pid);
    fs.writeSync(descriptor, events.map((event) => JSON.stringify({ run, ...event }) + '\n').join(''));
  } catch {
    descriptor = undefined;
  }
}

const leaving = (code) => emit({ ev: 'exit', code: process.exitCode ?? code });

/** Says that the runner has told everything, and tells once more with which code its process goes. */
function end(stopped) {
  emit({ ev: 'end', stopped: stopped || undefined });
  // Runners set their exit code in a listener of their own, which they add only now.
  process.once('beforeExit', () => process.once('exit', leaving));
}

/** Announces a runner, and tells at the end with which code its process went. */
function start(runner, total) {
  let root = plan.root;
  try {
    root = fs.realpathSync(root);
  } catch {
    // The runner sees the project elsewhere; its working folder is told as well.
  }
  emit({ ev: 'start', runner, root, cwd: process.cwd(), total });
  process.once('exit', leaving);
}

/** Text without colours, its middle left out when it is long. */
function clip(text, longest = LONGEST) {
  const plain = String(text).replace(ANSI, '');
  if (plain.length <= longest) return plain;
  const head = Math.floor(longest * 0.6);
  const tail = longest - head;
  return `${plain.slice(0, head)}\n[… ${plain.length - longest} characters …]\n${plain.slice(-tail)}`;
}

/** A value as a person would write it; undefined stays undefined so that it is left out. */
function show(value) {
  if (value === undefined) return undefined;
  if (typeof value === 'string') return clip(value);
  try {
    return clip(util.inspect(value, { depth: 6, breakLength: 100, maxArrayLength: 50, maxStringLength: 1000 }));
  } catch {
    return undefined;
  }
}

/** The places a stack names, outermost last: [file, line, column]. */
function frames(stack) {
  const found = [];
  for (const line of String(stack ?? '').replace(ANSI, '').split('\n')) {
    const place = /^\s*at (?:.*\()?(?:async )?([^()]+?):(\d+):(\d+)\)?\s*$/.exec(line);
    if (!place || place[1].startsWith(__dirname) || /^(?:node:|internal\/|<)|node_modules/.test(place[1])) continue;
    let file = place[1];
    try {
      // mocha makes stacks relative to the working folder.
      file = file.startsWith('file:') ? fileURLToPath(file.replace(/\?.*$/, '')) : path.resolve(file);
    } catch {
      continue;
    }
    found.push([file, Number(place[2]), Number(place[3])]);
    if (found.length === FRAMES) break;
  }
  return found;
}

/** The words of an error without its stack. */
function words(text) {
  return clip(String(text ?? '').replace(/\n\s+at [^\n]*(?:\n[\s\S]*)?$/, '').trim());
}

/** What an event says about an error of any kind. */
function describe(error) {
  if (error === null || typeof error !== 'object') return { message: clip(String(error)), frames: [] };
  const name = error.name && !/^(Error|AssertionError)$/.test(error.name) ? `${error.name}: ` : '';
  const message = error.message === undefined ? words(error.stack ?? show(error)) : `${name}${error.message}`;
  const compared = 'expected' in error && 'actual' in error;
  return {
    message: clip(message || String(error.name)),
    expected: compared ? show(error.expected) : undefined,
    actual: compared ? show(error.actual) : undefined,
    frames: frames(error.stack),
  };
}

/** Whether the plan lists or names tests. */
const selects = Boolean(plan.only || plan.suites || plan.names);

/** Whether the plan wants this test: every one, unless it selects some. */
function wanted(file, titles) {
  if (!selects) return true;
  let unit;
  try {
    unit = path.relative(fs.realpathSync(plan.root), fs.realpathSync(file));
  } catch {
    return true;
  }
  const inside = (id) => id.unit === unit && id.path.every((title, at) => title === titles[at]);
  if (plan.suites?.some(inside)) return true;
  if (plan.only) return plan.only.some((id) => inside(id) && id.path.length === titles.length);
  if (!plan.names) return false;
  const whole = titles.join(' ');
  return plan.names.some((name) => {
    const folder = name.replace(/^\.\//, '').replace(/\/$/, '');
    return unit === folder || unit.startsWith(`${folder}/`) || whole.includes(name.replace(/ [>›] /g, ' '));
  });
}

module.exports = { clip, describe, emit, end, frames, plan, selects, show, start, wanted, words };
