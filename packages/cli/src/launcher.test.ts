import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { exitOf, makeDir, startProcess } from "./testing/berth.ts"

const LAUNCHER = fileURLToPath(new URL("../../../bin/berth", import.meta.url))

/** Makes an installed and built project whose command prints its Node and its arguments. */
const makeProject = () => {
  const dir = makeDir()
  const root = join(dir, "the project")
  const main = join(root, "packages/cli/dist/bundle/berth.js")
  const node = join(root, "node_modules/.bin/node")
  for (const folder of ["bin", "packages/cli/dist/bundle", "node_modules/.bin"]) {
    mkdirSync(join(root, folder), { recursive: true })
  }
  copyFileSync(LAUNCHER, join(root, "bin/berth"))
  symlinkSync(process.execPath, node)
  writeFileSync(
    main,
    "console.log(JSON.stringify({ node: process.version, args: process.argv.slice(2) }))\nprocess.exitCode = 7\n",
  )
  return { dir, root, main, node, launcher: join(root, "bin/berth") }
}

const run = async (
  command: string,
  args: string[] = [],
  { path = "/usr/bin:/bin", cwd = "/" } = {},
) => {
  const child = startProcess(command, args, { env: { PATH: path }, cwd })
  const [stdout, stderr, status] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    exitOf(child),
  ])
  return { stdout, stderr, status }
}

const reached = (args: string[] = []) => ({
  stdout: `${JSON.stringify({ node: process.version, args })}\n`,
  stderr: "",
  status: 7,
})

describe("bin/berth", () => {
  it("passes arguments and the exit status on as they are", async () => {
    const { launcher } = makeProject()
    const args = ["a b", "", "$HOME", "'\"", "--", "-x\n"]
    expect(await run(launcher, args)).toEqual(reached(args))
  })

  it("finds the project through links: absolute, relative, chained, and to its folder", async () => {
    const { dir, root, launcher } = makeProject()
    mkdirSync(join(dir, "elsewhere"))
    const [absolute, relative, chained, folder] = ["abs", "rel", "chain", "folder"].map((name) =>
      join(dir, "elsewhere", name),
    ) as [string, string, string, string]
    symlinkSync(launcher, absolute)
    symlinkSync("../the project/bin/berth", relative)
    symlinkSync("rel", chained)
    symlinkSync(root, folder)
    for (const path of [absolute, relative, chained, join(folder, "bin/berth")]) {
      expect(await run(path)).toEqual(reached())
    }
  })

  it("is found on the path, and in the current directory", async () => {
    const { dir, root, launcher } = makeProject()
    const bin = join(dir, "links")
    mkdirSync(bin)
    symlinkSync(launcher, join(bin, "berth"))
    expect(await run("/bin/sh", ["-c", "berth"], { path: `${bin}:/usr/bin:/bin` })).toEqual(
      reached(),
    )
    const cwd = join(root, "bin")
    expect(await run("./berth", [], { cwd })).toEqual(reached())
    expect(await run("/bin/sh", ["berth"], { cwd })).toEqual(reached())
  })

  it("never runs the system's node", async () => {
    const { dir, launcher } = makeProject()
    writeFileSync(join(dir, "node"), "#!/bin/sh\necho wrong node\n")
    chmodSync(join(dir, "node"), 0o755)
    expect(await run(launcher, [], { path: `${dir}:/usr/bin:/bin` })).toEqual(reached())
  })

  it("runs the compiler's output where it is newer than the bundle", async () => {
    const { root, main, launcher } = makeProject()
    const compiled = join(root, "packages/server/dist/.tsbuildinfo")
    mkdirSync(join(root, "packages/server/dist"), { recursive: true })
    writeFileSync(compiled, "")
    writeFileSync(join(root, "packages/cli/dist/main.js"), "console.log('as compiled')\n")
    const [earlier, now] = [new Date(Date.now() - 60_000), new Date()]
    utimesSync(compiled, earlier, earlier)
    utimesSync(main, now, now)
    expect(await run(launcher)).toEqual(reached())
    utimesSync(compiled, now, now)
    utimesSync(main, earlier, earlier)
    expect(await run(launcher)).toMatchObject({ status: 0, stdout: "as compiled\n" })
  })

  it("says what to do when it is not built, has no node for this machine, or is not installed", async () => {
    const { root, main, node, launcher } = makeProject()
    rmSync(main)
    const notBuilt = await run(launcher)
    expect(notBuilt).toMatchObject({ status: 1, stdout: "" })
    expect(notBuilt.stderr).toContain(`Berth is not built in ${root}`)
    expect(notBuilt.stderr).toContain(`hint: cd '${root}' && npm run build`)
    rmSync(node)
    expect((await run(launcher)).stderr).toContain("there is no Node for this machine")
    rmSync(join(root, "node_modules"), { recursive: true })
    const notInstalled = await run(launcher)
    expect(notInstalled).toMatchObject({ status: 1, stdout: "" })
    expect(notInstalled.stderr).toContain(`hint: cd '${root}' && npm install && npm run build`)
  })
})
