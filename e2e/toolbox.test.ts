import { spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { configHash } from "@berth/backends/config-hash"
import { openEmbedded } from "@berth/backends/embedded/backend"
import { newId, Slug } from "@berth/protocol/ids"
import { SUPERVISOR_FLAGS, TOOLBOX_TARGET } from "@berth/protocol/inside"
import { SandboxConfig } from "@berth/protocol/sandbox"
import { ToolboxBuild } from "@berth/protocol/toolbox"
import { BERTH } from "@berth/testing/berth"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, describe, expect, it } from "vitest"

/** The build reads and writes half a gigabyte; this covers a busy machine. */
const BUILD_DEADLINE_MS = 180_000

const base = mkdtempSync(join(tmpdir(), "berth-toolbox-e2e-"))
// Sandboxes have their toolbox from the data directory, into which only its owner may look.
const dataDir = join(base, "data")
chmodSync(base, 0o711)
afterAll(() => rmSync(base, { recursive: true, force: true }))

const berth = async (...args: string[]) => {
  const [node, ...own] = BERTH
  const child = spawn(node, [...own, "toolbox", ...args], {
    env: { PATH: process.env.PATH, HOME: base, BERTH_DATA_DIR: dataDir },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ])
  return { stdout, stderr, status }
}

let built: ToolboxBuild

beforeAll(async () => {
  const { stdout, stderr } = await berth("build", "--json")
  expect(stderr).toBe("")
  built = ToolboxBuild.parse(JSON.parse(stdout))
}, BUILD_DEADLINE_MS)

describe("the toolbox of this version", () => {
  it("is built by one command, from what npm installed, and holds every part", async () => {
    expect(built.outcome).toBe("built")
    expect(built.entries.map(({ name }) => name)).toEqual([
      ...["node", "tini", "ripgrep", "pty", "supervisor", "web-terminal", "opencode"],
    ])
    expect(statSync(dataDir).mode & 0o777).toBe(0o700)
  })

  it("is listed, found again without another build, and verified", async () => {
    const again = await berth("build")
    expect(again).toMatchObject({ status: 0, stderr: "" })
    expect(again.stdout).toContain(`${built.id} is there already`)
    const listed = await berth("ls")
    expect(listed.stdout).toMatch(new RegExp(`^${built.id}  intact, \\d+ MB in [\\d,]+ files`))
    expect(listed.stdout).toMatch(/^ {2}opencode +1\.18\.33$/m)
    const verified = await berth("verify", built.id)
    expect(verified).toMatchObject({ status: 0, stdout: expect.stringContaining("intact") })
  }, 60_000)
})

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "a sandbox with the toolbox of this version",
  () => {
    /** Runs a shell script in a sandbox without a network, to its end, and returns its output. */
    const inside = async (script: string): Promise<string> => {
      const installation = newId.installation()
      const directory = mkdtempSync(join(base, "sandboxes-"))
      chmodSync(directory, 0o711)
      const backend = await openEmbedded({ installation, directory })
      const config = SandboxConfig.parse({
        system: { kind: "host" },
        command: ["/bin/sh", "-c", `exec 2>&1\n${script}`],
        environment: { HOME: "/home", PATH: "/usr/bin:/bin" },
        mounts: [
          { kind: "directory", source: built.directory, target: TOOLBOX_TARGET, readOnly: true },
        ],
      })
      const sandbox = newId.sandbox()
      const workspace = Slug.parse("toolbox")
      const identity = { installation, workspace, sandbox, configHash: configHash(config) }
      const watching = new AbortController()
      try {
        const events = backend.watch(watching.signal)[Symbol.asyncIterator]()
        await backend.create({ identity, config })
        await backend.start(sandbox)
        for (let ended = false; !ended; ) {
          const { value, done } = await events.next()
          ended = done === true || value.kind === "exited"
        }
        return await backend.logs(sandbox)
      } finally {
        watching.abort()
        await backend.remove(sandbox)
      }
    }

    it("[R2.5] runs every program of the toolbox from there, and may not write to it", async () => {
      const output = await inside(`
        cd /opt/berth
        echo "node $(bin/node --version)"
        echo "rg $(bin/rg --version | head -1)"
        echo "tini $(bin/tini --version)"
        echo "opencode $(bin/opencode --version)"
        bin/node --check supervisor/main.cjs && echo "supervisor is sound"
        cd supervisor
        ../bin/node ${SUPERVISOR_FLAGS.join(" ")} -e '
          const { Script } = require("node:vm")
          const { readFileSync } = require("node:fs")
          for (const name of ["first.js", "rest.js"]) {
            const cachedData = readFileSync(name + ".compiled")
            const script = new Script(readFileSync(name, "latin1"), { cachedData })
            console.log(name, script.cachedDataRejected ? "is compiled anew" : "comes compiled")
          }
        '
        ../bin/node -e '
          const terminal = require("@lydell/node-pty").spawn("/usr/bin/tty", [], {})
          terminal.onData((data) => process.stdout.write("pty " + data))
        '
        (echo > /opt/berth/bin/x) || true
        rm -f /opt/berth/bin/rg || true
      `)
      expect(output.split(/\r?\n/)).toEqual([
        "node v24.21.0",
        expect.stringMatching(/^rg ripgrep \d/),
        expect.stringMatching(/^tini tini version \d/),
        "opencode 1.18.33",
        "supervisor is sound",
        "first.js comes compiled",
        "rest.js comes compiled",
        "pty /dev/pts/0",
        expect.stringContaining("Read-only file system"),
        expect.stringContaining("Read-only file system"),
        "",
      ])
    }, 60_000)

    it("[R2.5] has OpenCode's tools within 30 s and without a network: nothing is installed", async () => {
      const output = await inside(`
        config=$HOME/.config/opencode
        mkdir -p $config/tool /workspace/repo
        for name in node_modules package.json package-lock.json; do
          ln -s /opt/berth/agents/opencode/config/$name $config/$name
        done
        cat > $config/tool/greet.ts <<'END'
import { tool } from "@opencode-ai/plugin"
export default tool({ description: "greets", args: {}, execute: async () => "hello" })
END
        cd /workspace
        export OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1
        PATH=$PATH:/opt/berth/bin exec /opt/berth/bin/node -e '${ASK_FOR_TOOLS}'
      `)
      const answer = JSON.parse(output.split("\n").find((line) => line.startsWith("{")) ?? "{}")
      expect(answer, output).toMatchObject({ status: 200, modules: "link" })
      expect(answer.tools).toContain("greet")
      // Without the links, OpenCode tries for more than a minute and then fails.
      expect(answer.ms).toBeLessThan(30_000)
    }, 90_000)
  },
)

/** Starts OpenCode, asks which tools it has in a directory, and says how that went. */
const ASK_FOR_TOOLS = `
const { spawn } = require("node:child_process")
const { lstatSync } = require("node:fs")
const opencode = spawn("opencode", ["serve", "--port", "4096", "--hostname", "127.0.0.1"], {
  stdio: ["ignore", "pipe", "inherit"],
})
let said = ""
opencode.stdout.on("data", async (data) => {
  const before = said
  said += data
  if (before.includes("listening") || !said.includes("listening")) return
  const start = performance.now()
  const reply = await fetch("http://127.0.0.1:4096/experimental/tool/ids?directory=/workspace/repo")
  const tools = await reply.json()
  const ms = Math.round(performance.now() - start)
  const modules = lstatSync(process.env.HOME + "/.config/opencode/node_modules")
  console.log(JSON.stringify({
    status: reply.status, tools, ms, modules: modules.isSymbolicLink() ? "link" : "directory",
  }))
  opencode.kill("SIGKILL")
})
`
