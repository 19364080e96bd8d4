import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"

const BINARIES: Readonly<Record<string, string>> = {
  x64: "opencode-linux-x64-baseline",
  arm64: "opencode-linux-arm64",
}

const resolve = createRequire(import.meta.url).resolve
const directoryOf = (name: string): string => dirname(resolve(`${name}/package.json`))

const installed = (): string => directoryOf(BINARIES[process.arch] ?? "opencode")

/** The OpenCode that npm installed. */
export const opencodeBinary = (): string => join(installed(), "bin/opencode")

/** Makes the part of a toolbox that OpenCode needs, from links. */
export const makeOpencodeToolbox = (directory: string, binary = opencodeBinary()): void => {
  const bin = join(directory, "bin")
  mkdirSync(bin, { recursive: true })
  symlinkSync(binary, join(bin, "opencode"))
  symlinkSync(join(directoryOf(`@vscode/ripgrep-linux-${process.arch}`), "bin/rg"), join(bin, "rg"))
}

/** OpenCode's name for the scripted model. */
const SCRIPTED_MODEL = "scripted/scripted-1"

/** A configuration of OpenCode that has a scripted model and no other. */
export const scriptedConfig = (
  baseUrl: string,
  apiKey = "x",
): Readonly<Record<string, unknown>> => {
  const models = { "scripted-1": { limit: { context: 128_000, output: 8_192 } } }
  const options = { baseURL: baseUrl, apiKey }
  const scripted = { npm: "@ai-sdk/openai-compatible", options, models }
  return {
    provider: { scripted },
    enabled_providers: ["scripted"],
    model: SCRIPTED_MODEL,
    small_model: SCRIPTED_MODEL,
    autoupdate: false,
    share: "disabled",
  }
}

/**
 * Writes a configuration directory in which OpenCode finds its plugin package installed, as a toolbox has it: otherwise
 * its first prompt waits for an installation from the registry.
 */
export const writeOpencodeConfig = (directory: string, config: object): void => {
  const { version } = JSON.parse(readFileSync(join(installed(), "package.json"), "utf8"))
  const dependencies = { "@opencode-ai/plugin": version }
  const files = {
    "opencode.json": config,
    "package.json": { dependencies },
    "package-lock.json": { lockfileVersion: 3, packages: { "": { dependencies } } },
  }
  mkdirSync(join(directory, "node_modules"), { recursive: true })
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(directory, name), JSON.stringify(content))
}
