import { execFile } from "node:child_process"
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import { openServer } from "./sandboxes/server.ts"

const exec = promisify(execFile)
const ROOT = fileURLToPath(new URL("..", import.meta.url))

/** A toolbox is built, packages are installed, and sandboxes boot beside other tests. */
const STAGE_DEADLINE_MS = 120_000

/** The SDK, and what it needs of this project. */
const PACKAGES = ["@berth/protocol", "@berth/local", "@berth/sdk"]

/** A program as somebody writes it who has nothing but the packed SDK. */
const PROGRAM = `
import { createClient } from "@berth/sdk"
const { sandboxes, sessions } = createClient()
const sandbox = await sandboxes.create({ workspace: { slug: "packed", network: { kind: "none" } } })
await sandbox.ready()
const session = await sessions.create({ workspace: "packed" })
const ends = []
for (const prompt of ["echo hello", "exit 3"]) {
  const { state, reason, text } = await session.run(prompt)
  ends.push({ state, reason, text })
}
const command = await sandbox.commands.run("echo from a command").catch(({ code, hint }) => ({ code, hint }))
console.log(JSON.stringify({ ends, command }))
`

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "the packed SDK in an empty project",
  () => {
    let base: string
    let server: Awaited<ReturnType<typeof openServer>>
    beforeAll(async () => {
      base = await mkdtemp(join(tmpdir(), "berth-packed-"))
      const project = join(base, "project")
      await mkdir(project)
      await writeFile(join(project, "package.json"), JSON.stringify({ type: "module" }))
      await writeFile(join(project, "program.js"), PROGRAM)
      const pack = ["pack", "--json", ...PACKAGES.map((name) => `--workspace=${name}`)]
      const { stdout } = await exec("npm", [...pack, "--pack-destination", base], { cwd: ROOT })
      const packed: { filename: string }[] = Object.values(JSON.parse(stdout))
      const files = packed.map(({ filename }) => join(base, filename))
      const install = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--omit=dev"]
      ;[server] = await Promise.all([
        openServer(),
        exec("npm", [...install, ...files], { cwd: project }),
      ])
    }, STAGE_DEADLINE_MS)
    afterAll(async () => {
      await server.close()
      await rm(base, { recursive: true, force: true })
    }, STAGE_DEADLINE_MS)

    const runProgram = async (...flags: readonly string[]) => {
      const { PATH, HOME } = server.env
      const env = { PATH, HOME, BERTH_DATA_DIR: server.dataDir }
      const options = { cwd: join(base, "project"), env }
      const { stdout } = await exec(process.execPath, [...flags, "program.js"], options)
      return JSON.parse(stdout)
    }
    const ENDS = [
      { state: "succeeded", text: "hello\n" },
      { state: "failed", reason: "the command ended with status 3", text: "" },
    ]

    it("finds the server of this machine, boots a sandbox, runs prompts to their ends and runs a command", async () => {
      expect(await runProgram()).toMatchObject({
        ends: ENDS,
        command: { stdout: "from a command\n", status: 0 },
      })
    })

    it("says what to do on a Node without WebSockets, and only where one is needed", async () => {
      expect(await runProgram("--no-experimental-websocket")).toMatchObject({
        ends: ENDS,
        command: { code: "client.runtime_too_old", hint: expect.stringContaining("Node 22") },
      })
    })
  },
)
