'use strict';
// Loaded where jest runs tests: in its own process by our reporter, in its workers ahead of everything else.
// Jest can say where every test stands, but to find that out costs it more than most tests take, and is needed only
// where one of the file's tests failed. So its runner is asked for the places when the first one did.

const Module = require('node:module');

const RUNNER = /[\\/]jest-circus[\\/](?:build[\\/])?runner(?:\.js)?$/;

/** The runner, told to find the places of a file's tests once one of them failed. */
function watched(run) {
  return (globalConfig, config, environment, ...rest) => {
    const theirs = environment.handleTestEvent;
    environment.handleTestEvent = (event, state) => {
      if (event.name === 'test_done' && event.test.errors.length) state.includeTestLocationInResult = true;
      return theirs?.call(environment, event, state);
    };
    return run(globalConfig, config, environment, ...rest);
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
