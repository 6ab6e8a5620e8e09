'use strict';
// Loaded where jest runs tests: in its own process by our reporter, in its workers ahead of everything else.
// Jest can say where every test stands, but to find that out costs it more than most tests take, and is needed only
// where one of the file's tests failed. So its runner is asked for the places when the first one did. What a failed
// test printed is known here, too: later there is one list for the whole file.

const Module = require('node:module');

const RUNNER = /(?:^|[\\/])jest-circus[\\/](?:build[\\/])?runner(?:\.js)?$/;

/** Every test of a file, in the order of its results. */
function testsOf(block) {
  return block.children.flatMap((child) => (child.type === 'describeBlock' ? testsOf(child) : [child]));
}

/** What was printed from the start of a failed test to its end. */
class Heard {
  constructor(console) {
    this.console = console;
    this.from = 0;
    this.texts = new Map();
    this.tests = [];
  }

  printed() {
    return this.console?.getBuffer?.() ?? [];
  }

  take({ name, test }, state) {
    if (name === 'test_start') this.from = this.printed().length;
    if (name === 'run_finish') this.tests = testsOf(state.rootDescribeBlock);
    if (name !== 'test_done' || !test.errors.length) return;
    state.includeTestLocationInResult = true;
    const entries = this.printed().slice(this.from);
    this.texts.set(test, entries.map((entry) => `${entry.message}\n`).join(''));
  }

  /** Tells it with the results. Tests that run at the same time print at the same time: of these, lines must tell. */
  tell(results) {
    const { tests } = this;
    const same = tests.length === results?.length && tests.every((test, at) => test.name === results[at].title);
    if (!same || tests.some((test) => test.concurrent)) return;
    for (const [at, test] of tests.entries()) if (this.texts.has(test)) results[at].printed = this.texts.get(test);
  }
}

/** Another version of jest may have other words; that must not reach its tests. */
function quietly(act) {
  try {
    act();
  } catch {
    // Then the stack of a failure tells its place, and nothing what its test printed.
  }
}

/** The runner, told to find the places of a file's tests once one of them failed. */
function watched(run) {
  return async (globalConfig, config, environment, ...rest) => {
    const theirs = environment.handleTestEvent;
    const heard = new Heard(environment.global?.console);
    environment.handleTestEvent = (event, state) => {
      quietly(() => heard.take(event, state));
      return theirs?.call(environment, event, state);
    };
    const result = await run(globalConfig, config, environment, ...rest);
    quietly(() => heard.tell(result?.testResults));
    return result;
  };
}

function install() {
  const load = Module._load;
  Module._load = function (request, ...rest) {
    const loaded = load.call(this, request, ...rest);
    if (typeof request !== 'string' || !RUNNER.test(request)) return loaded;
    if (typeof loaded === 'function') return watched(loaded);
    if (typeof loaded?.default !== 'function') return loaded;
    return Object.create(loaded, { default: { value: watched(loaded.default) } });
  };
  // What tests fork inherits the flags of this process, but has no use for ours.
  const own = process.execArgv.indexOf(`--require=${__filename}`);
  if (own !== -1) process.execArgv.splice(own, 1);
}

/** Whether the tests of a project are run by what is watched here. */
const watches = (config, workerThreads) =>
  !workerThreads &&
  process.env.JEST_JASMINE !== '1' &&
  RUNNER.test(config.testRunner ?? '') &&
  /[\\/]jest-runner[\\/]/.test(config.runner ?? '');

install();

module.exports = { watches };
