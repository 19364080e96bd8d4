import { once } from "node:events"
import { createInterface } from "node:readline"
import { makeDir, startProcess, startServer } from "@berth/cli/testing/berth"
import { HALT_SOON, halted } from "@berth/cli/testing/halted"
import { build } from "esbuild"
import { describe, expect, it } from "vitest"

/** A program that asks for the status once for each line of its input, and stands still where the line says so. */
const PROGRAM = `
import { createInterface } from "node:readline"
import { createClient } from "@berth/sdk"
const client = createClient()
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "halt") ${HALT_SOON}
  console.log(JSON.stringify(await client.status().catch(({ code, message }) => ({ code, message }))))
}
`

const startProgram = (dataDir: string) => {
  const args = ["--conditions=source", "--input-type=module", "--eval", PROGRAM]
  const env = { BERTH_DATA_DIR: dataDir }
  const child = startProcess(process.execPath, args, { cwd: import.meta.dirname, env })
  const lines = createInterface({ input: child.stdout })
  return {
    child,
    ask: async (how = "") => {
      const answered = once(lines, "line")
      child.stdin.write(`${how}\n`)
      const [line] = await answered
      return JSON.parse(line)
    },
  }
}

describe("createClient without arguments", () => {
  it("finds the server of the configured data directory, wherever it answers, and waits for one that starts", async () => {
    const dataDir = makeDir()
    const program = startProgram(dataDir)
    expect(await program.ask()).toEqual({
      code: "server.not_running",
      message: `no server runs on ${dataDir}`,
    })

    const asked = program.ask("halt")
    await halted(program.child)
    const first = await startServer(["--data-dir", dataDir])
    program.child.kill("SIGCONT")
    expect(await asked).toMatchObject({ pid: first.pid, dataDir })

    await first.stop()
    const second = await startServer(["--data-dir", dataDir])
    expect(second.url).not.toBe(first.url)
    expect(await program.ask()).toMatchObject({ pid: second.pid, dataDir })
  })

  it("is not in the bundle for browsers, which has nothing of Node", async () => {
    const stdin = { contents: 'export * from "@berth/sdk"', resolveDir: import.meta.dirname }
    const settings = { bundle: true, write: false, metafile: true, format: "esm" } as const
    const { metafile } = await build({
      ...settings,
      stdin,
      platform: "browser",
      conditions: ["source"],
    })
    const files = Object.keys(metafile.inputs)
    expect(files).toContain("packages/sdk/src/client.ts")
    expect(files.filter((file) => /packages\/(local|server)|sdk\/src\/node/.test(file))).toEqual([])
  })
})
