// Loaded before Mermaid's command line: the page that draws may load what the program brings and what the diagram
// itself holds, and neither other files nor hosts, whichever way a diagram names them.
import { existsSync, readFileSync, realpathSync } from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const program = process.argv[1] ? realpathSync(process.argv[1]) : "";
// Wrappers around it are left alone.
if (program.includes("mermaid-cli")) {
  const { default: puppeteer } = await import(library(dirname(program)));
  const launch = puppeteer.launch.bind(puppeteer);
  puppeteer.launch = async (options) => {
    const browser = await launch(options);
    const newPage = browser.newPage.bind(browser);
    browser.newPage = async (...args) => guard(await newPage(...args));
    return browser;
  };
}

// Where the program finds what drives the browser.
function library(folder) {
  const there = () => join(folder, "node_modules/puppeteer");
  while (!existsSync(there()) && folder !== dirname(folder)) folder = dirname(folder);
  const manifest = JSON.parse(readFileSync(join(there(), "package.json"), "utf8"));
  let entry = manifest.exports?.["."] ?? manifest.main;
  while (typeof entry === "object") entry = entry.import ?? entry.node ?? entry.default;
  return pathToFileURL(realpathSync(join(there(), entry))).href;
}

async function guard(page) {
  let home;
  page.on("request", (request) => {
    const url = new URL(request.url());
    // The first one is for the page itself.
    home ??= url.href.slice(0, url.href.lastIndexOf("/") + 1);
    // The program answers requests to a host of this kind itself.
    const own = url.href.startsWith(home) || url.hostname.endsWith(".invalid");
    if (own || ["data:", "blob:", "about:"].includes(url.protocol)) return request.continue({}, 0);
    console.error(`not loaded: ${url.href.slice(0, 200)}`);
    return request.abort("accessdenied", 1);
  });
  await page.setRequestInterception(true);
  return page;
}
