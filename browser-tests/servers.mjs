// One control plane and its nodes, as processes of the binary under test.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./until.mjs";

const binary = process.env.TOLLGATE_BIN ?? "target/debug/tollgate";

/** A port that was free a moment ago. */
export async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", () => done(null)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  await new Promise((done) => server.close(done));
  return port;
}

class Process {
  /** Of a node: where it answers, and its name. */
  url = "";
  label = "";

  constructor(name, args) {
    this.name = name;
    this.args = args;
    this.output = "";
  }

  start() {
    this.child = spawn(binary, this.args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env.PATH },
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (bytes) => (this.output += bytes));
    }
    this.ended = new Promise((done) => this.child.on("exit", done));
    this.child.on("error", (error) => (this.output += error));
  }

  async wait(pattern, what) {
    return until(`${this.name}: ${what}`, () => this.output.match(pattern), {
      explain: () => this.output.slice(-2000),
      isHopeless: () => this.child.exitCode !== null,
    });
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }
}

export class Fleet {
  folder = "";
  url = "";
  data = "";
  setupLink = "";
  /** @type {Process[]} */ nodes = [];

  /** Starts a control plane and `count` nodes. */
  static async start(count) {
    const fleet = new Fleet();
    fleet.folder = mkdtempSync(join(tmpdir(), "tollgate-browser-"));
    const port = await freePort();
    fleet.url = `http://127.0.0.1:${port}`;
    fleet.data = join(fleet.folder, "data");
    await fleet.startControl();
    const link = await fleet.control.wait(/(http:\/\/\S+\/setup\?code=\S+)/, "prints the setup link");
    fleet.setupLink = link[1];
    for (let number = 1; number <= count; number++) fleet.nodes.push(await fleet.startNode(`node-${number}`));
    return fleet;
  }

  async startControl() {
    const listen = new URL(this.url).host;
    this.control = new Process("control", ["control", "--listen", listen, "--data-dir", this.data]);
    this.control.start();
    await until(
      "the control plane answers",
      async () => (await fetch(`${this.url}/login`).catch(() => null))?.ok,
      {
        explain: () => this.control.output,
      },
    );
  }

  async startNode(name) {
    const http = `127.0.0.1:${await freePort()}`;
    const args = ["serve", "--control", this.url, "--control-token-file", join(this.data, "node-token")];
    args.push("--node-name", name, "--state-dir", join(this.folder, name));
    args.push("--http", http, "--grpc", "off", "--resp", "off");
    const node = new Process(name, args);
    node.start();
    node.url = `http://${http}`;
    node.label = name;
    await until(
      `${name} answers`,
      async () => (await fetch(`${node.url}/healthz`).catch(() => null)) !== null,
      {
        explain: () => node.output,
      },
    );
    return node;
  }

  /** The reply of a node to one request of this app and key. */
  async check(node, app, key, hits = 1) {
    return this.ask(node, app, [{ key: "key", value: key }], hits);
  }

  /** The reply of a node to one request of these entries. */
  async ask(node, domain, entries, hits = 1) {
    return this.send(node, { domain, descriptors: [entries], hits });
  }

  /** One request that is as many decisions. */
  async checkMany(node, app, key, decisions) {
    const descriptors = Array.from({ length: decisions }, () => [{ key: "key", value: key }]);
    return this.send(node, { domain: app, descriptors });
  }

  async send(node, body) {
    const headers = { "content-type": "application/json" };
    const reply = await fetch(`${node.url}/v1/check`, {
      method: "POST",
      headers,
      body: JSON.stringify(body),
    });
    return reply.json();
  }

  async stop() {
    await Promise.all([this.control, ...this.nodes].map((it) => it?.kill()));
    rmSync(this.folder, { recursive: true, force: true });
  }
}
