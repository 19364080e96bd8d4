/**
 * Writes the pins of the agents that are installed on first use: for each a manifest and a lock file, with the versions
 * and hashes of this project's own lock file, so that the installed versions are the tested ones. To be run after
 * either adapter is updated.
 */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

interface Locked {
  readonly version: string
  readonly dev?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const ROOT = fileURLToPath(new URL("..", import.meta.url))
const AGENTS = {
  claude: "@agentclientprotocol/claude-agent-acp",
  codex: "@agentclientprotocol/codex-acp",
}

const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
  packages: Readonly<Record<string, Locked>>
}

/** The place where npm puts a package's dependency: the nearest `node_modules` above it that has it. */
const placeOf = (name: string, from: string): string | undefined => {
  for (
    let place = from;
    ;
    place = place.slice(0, Math.max(0, place.lastIndexOf("node_modules/") - 1))
  ) {
    const found = `${place}${place === "" ? "" : "/"}node_modules/${name}`
    if (packages[found] !== undefined) return found
    if (place === "") return undefined
  }
}

const closureOf = (adapter: string): string[] => {
  const found = new Set<string>()
  const open = [`node_modules/${adapter}`]
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    if (found.has(place)) continue
    found.add(place)
    const { dependencies = {}, optionalDependencies = {} } = packages[place] as Locked
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
      const needed = placeOf(name, place)
      if (needed !== undefined) open.push(needed)
    }
  }
  return [...found].sort()
}

/** The bytes that npm writes here, for the progress of an installation: elsewhere it is about the same. */
const bytesOf = (places: readonly string[]): number => {
  const there = places.map((place) => join(ROOT, place)).filter((path) => existsSync(path))
  const du = execFileSync("du", ["--bytes", "--summarize", "--total", ...there], {
    encoding: "utf8",
  })
  return Number(/^(\d+)\ttotal$/m.exec(du)?.[1])
}

const write = (path: string, value: object): void =>
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`)

for (const [agent, adapter] of Object.entries(AGENTS)) {
  const directory = join(ROOT, "packages/toolbox/agents", agent)
  const version = packages[`node_modules/${adapter}`]?.version ?? ""
  const places = closureOf(adapter)
  const locked = places.map((place) => {
    const { dev: _, ...entry } = packages[place] as Locked
    return [place, entry]
  })
  const manifest = {
    name: `berth-agent-${agent}`,
    private: true,
    dependencies: { [adapter]: version },
    berth: { bytes: bytesOf(places) },
  }
  mkdirSync(directory, { recursive: true })
  write(join(directory, "package.json"), manifest)
  write(join(directory, "package-lock.json"), {
    name: manifest.name,
    lockfileVersion: 3,
    requires: true,
    packages: {
      "": { name: manifest.name, dependencies: manifest.dependencies },
      ...Object.fromEntries(locked),
    },
  })
}
