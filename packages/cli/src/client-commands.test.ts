import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { sampled } from "@berth/testing/sampled"
import { describe, expect, it } from "vitest"
import { exitOf, makeDir, startProcess, startServer } from "./testing/berth.ts"

const MAIN = join(import.meta.dirname, "main.ts")

/** Loaded first: writes the address of every module that is loaded after it, one on each line. */
const RECORDER = `
import { appendFileSync } from "node:fs"
import { registerHooks } from "node:module"
registerHooks({
  load: (url, context, next) => {
    appendFileSync(process.env.LOADED, url + "\\n")
    return next(url, context)
  },
})`

/** The files of this project that a command loads, from their package on: `server/src/main.ts`. */
const loadedBy = async (args: readonly string[]) => {
  const LOADED = join(makeDir(), "loaded")
  const recorder = `data:text/javascript,${encodeURIComponent(RECORDER)}`
  const node = ["--conditions=source", "--import", recorder, MAIN]
  await exitOf(startProcess(process.execPath, [...node, ...args], { env: { LOADED } }))
  const packages = fileURLToPath(new URL("../../", import.meta.url))
  return readFileSync(LOADED, "utf8")
    .split("\n")
    .filter((url) => url.startsWith("file:"))
    .map((url) => fileURLToPath(url))
    .filter((path) => path.startsWith(packages))
    .map((path) => path.slice(packages.length))
}

/** The server's package, and those that only it loads. */
const OF_SERVER = /^(?:server|host|layers|toolbox|bridge|backends)\//
const ofServer = (files: readonly string[]) => files.filter((file) => OF_SERVER.test(file))

describe("a command that talks to a running server", () => {
  it("loads the SDK and none of the server's code", async () => {
    const { dataDir } = await startServer(["--data-dir", makeDir()])
    const commands = [
      ["ps"],
      ["status"],
      ["sessions"],
      ["exec", "none", "true"],
      ["log", "none"],
      ["rm", "none"],
      ["boot", "none"],
    ]
    for (const [name = "", ...rest] of sampled("commands whose modules are listed", commands, 2)) {
      const files = await loadedBy([name, "--data-dir", dataDir, ...rest])
      expect(files, name).toContain("sdk/src/client.ts")
      expect(ofServer(files), name).toEqual([])
    }
  })

  it("is every command but serve, doctor, toolbox and layers, and boot while a server answers", () => {
    const commands = join(import.meta.dirname, "commands")
    const loading = readdirSync(commands, { recursive: true, encoding: "utf8" }).filter(
      (file) =>
        file.endsWith(".ts") &&
        !file.endsWith(".test.ts") &&
        /from "(\.\.\/)+host\.ts"/.test(readFileSync(join(commands, file), "utf8")),
    )
    expect(new Set(loading.map((file) => file.replace(/(\/.*)?\.ts$|\/.*$/, "")))).toEqual(
      new Set(["serve", "doctor", "toolbox", "layers", "boot"]),
    )
  })

  it("differs from `berth layers` and a `berth boot` without a server, which load the server's code", async () => {
    for (const args of [["layers", "ls"], ["boot"]])
      expect(ofServer(await loadedBy([...args, "--data-dir", makeDir()])), args[0]).toContain(
        "server/src/main.ts",
      )
  })
})
