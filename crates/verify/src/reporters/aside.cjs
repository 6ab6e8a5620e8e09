'use strict';
// `tsc -b` has to write what one project needs of another, so projects that refer to each other cannot be checked
// with `--noEmit`. Here all it writes goes into a folder of ours, laid over the checkout for this process alone.

const fs = require('node:fs');
const path = require('node:path');

const real = { ...fs, realpath: fs.realpathSync, native: fs.realpathSync.native };
const folder = path.join(__dirname, 'aside');

const kept = (file) => path.join(folder, path.resolve(String(file)));
const isKept = (file) => real.existsSync(kept(file));
/** Where the newest of a file is. */
const newest = (file) => (isKept(file) ? kept(file) : file);

function keepAside() {
  fs.openSync = (file, flags, ...rest) => {
    if (flags !== 'w') return real.openSync(newest(file), flags, ...rest);
    real.mkdirSync(path.dirname(kept(file)), { recursive: true });
    return real.openSync(kept(file), flags, ...rest);
  };
  fs.mkdirSync = (file) => real.mkdirSync(kept(file), { recursive: true });
  fs.statSync = (file, ...rest) => real.statSync(newest(file), ...rest);
  fs.existsSync = (file) => isKept(file) || real.existsSync(file);
  fs.readFileSync = (file, ...rest) => real.readFileSync(newest(file), ...rest);
  // What is in the checkout stays, with its times.
  fs.unlinkSync = (file) => isKept(file) && real.unlinkSync(kept(file));
  fs.utimesSync = (file, ...times) => isKept(file) && real.utimesSync(kept(file), ...times);
  fs.realpathSync = (file, ...rest) => (isKept(file) ? path.resolve(file) : real.realpath(file, ...rest));
  fs.realpathSync.native = (file, ...rest) => (isKept(file) ? path.resolve(file) : real.native(file, ...rest));
}

module.exports = { keepAside };
