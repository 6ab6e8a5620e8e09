'use strict';
// TypeScript 7 is a program of its own, which no hook can tell where to write, and `tsc -b` writes beside what it
// checks. So it works on a copy of the sources: in our folder, at the same place below it.

const fs = require('node:fs');
const path = require('node:path');

const folder = path.join(__dirname, 'mirror');
/** What a compiler reads. What an earlier build noted (`.tsbuildinfo`) is not: everything is checked. */
const READ = /\.(?:[cm]?[jt]sx?|json)$/;
const CONFIG = /^tsconfig[^/]*\.json$/;
/** More than this is too much to copy for one check. */
const MOST = 20000;

const within = (file, root) => file === root || file.startsWith(root + path.sep);
const copyOf = (file) => path.join(folder, file);

class Mirror {
  constructor(root) {
    this.root = root;
    this.files = 0;
  }

  /** A link to what is copied leads to the copy, every other to where it led. */
  link(source, target) {
    let there;
    try {
      there = fs.realpathSync(source);
    } catch {
      return;
    }
    const copied = within(there, this.root) && !there.slice(this.root.length).split(path.sep).includes('node_modules');
    fs.symlinkSync(copied ? copyOf(there) : there, target);
  }

  /** Packages are not copied; those of the workspace are links to what is. */
  packages(source, target) {
    fs.mkdirSync(target, { recursive: true });
    for (const entry of fs.readdirSync(source, { withFileTypes: true })) {
      const [from, to] = [path.join(source, entry.name), path.join(target, entry.name)];
      // Package managers and tools keep notes under such names, which are not to be written to.
      if (entry.name.startsWith('.')) continue;
      if (entry.name.startsWith('@') && entry.isDirectory()) this.packages(from, to);
      else this.link(from, to);
    }
  }

  /** Copies one source file. A project that reads or writes elsewhere would be another one in its copy. */
  copy(source, target, name) {
    if (++this.files > MOST) throw new Error('too many files');
    fs.copyFileSync(source, target, fs.constants.COPYFILE_FICLONE);
    if (!CONFIG.test(name)) return;
    for (const [, named] of fs.readFileSync(source, 'utf8').matchAll(/"(\.\.?\/[^"]*|\.\.)"/g)) {
      if (!within(path.resolve(path.dirname(source), named), this.root)) throw new Error(`${source} names ${named}`);
    }
  }

  lay(source, target) {
    fs.mkdirSync(target, { recursive: true });
    for (const entry of fs.readdirSync(source, { withFileTypes: true })) {
      const [from, to] = [path.join(source, entry.name), path.join(target, entry.name)];
      if (entry.isSymbolicLink()) this.link(from, to);
      else if (entry.name === 'node_modules') this.packages(from, to);
      else if (entry.isDirectory() && entry.name !== '.git') this.lay(from, to);
      else if (entry.isFile() && READ.test(entry.name)) this.copy(from, to, entry.name);
    }
  }
}

/** Copies the project and goes there. Whether that could be done. */
function moveInto(project) {
  try {
    const root = fs.realpathSync(project);
    const here = process.cwd();
    if (!within(here, root)) return false;
    fs.rmSync(folder, { recursive: true, force: true });
    new Mirror(root).lay(root, copyOf(root));
    for (let above = root; above !== path.dirname(above); ) {
      above = path.dirname(above);
      const packages = path.join(above, 'node_modules');
      if (fs.existsSync(packages)) fs.symlinkSync(packages, copyOf(packages));
    }
    process.chdir(copyOf(here));
    return true;
  } catch {
    return false;
  }
}

module.exports = { moveInto };
