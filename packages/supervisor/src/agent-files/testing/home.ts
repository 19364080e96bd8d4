import { execFileSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { AgentFile } from "../../agents/agent.ts"
import { systemClock } from "../../processes/clock.ts"
import type { User } from "../../processes/user.ts"
import { placeAgentFiles } from "../place.ts"

/** An ordinary user if the tests run as root, else the test's own. */
export const USER: User | undefined =
  process.getuid?.() === 0 ? { uid: 1000, gid: 1000 } : undefined

/** The files of an agent: a tree, and a file beside it. */
export const FILES: readonly AgentFile[] = [
  { from: "agents/x/node_modules", to: ".config/x/node_modules" },
  { from: "agents/x/package.json", to: ".config/x/package.json" },
]

/** Fails like a file system without links. */
export const NO_LINKS = {
  makeLink: (): void => {
    throw new Error("EPERM: operation not permitted, symlink")
  },
}

const SYSTEM_PATH = "/usr/bin:/bin"

/** A toolbox and a home, and operations on them. */
export class Home {
  readonly directory = mkdtempSync(join(tmpdir(), "berth-agent-files-"))
  readonly roots = { toolbox: join(this.directory, "toolbox"), home: join(this.directory, "home") }

  constructor() {
    mkdirSync(this.roots.home)
    chmodSync(this.directory, 0o755)
    if (USER) chownSync(this.roots.home, USER.uid, USER.gid)
    this.fill("1.0.0")
  }

  /** Fills the toolbox with a version, as read-only as the real one. */
  fill(version: string): void {
    const at = join(this.roots.toolbox, "agents/x")
    rmSync(at, { recursive: true, force: true })
    mkdirSync(join(at, "node_modules/plugin/lib"), { recursive: true })
    writeFileSync(join(at, "node_modules/plugin/lib/index.js"), `// ${version}`, { mode: 0o444 })
    writeFileSync(join(at, "node_modules/plugin/run"), "#!/bin/sh\n", { mode: 0o555 })
    writeFileSync(join(at, "package.json"), JSON.stringify({ version }), { mode: 0o444 })
    execFileSync("chmod", ["-R", "a-w", join(at, "node_modules")])
  }

  path(...parts: string[]): string {
    return join(this.roots.home, ...parts)
  }

  /** Writes a file of the user's. */
  own(path: string, text: string): void {
    mkdirSync(dirname(this.path(path)), { recursive: true })
    writeFileSync(this.path(path), text)
    this.giveAway()
  }

  giveAway(): void {
    if (USER) execFileSync("chown", ["-hR", `${USER.uid}:${USER.gid}`, this.roots.home])
  }

  /** Makes scripts that shadow the system's programs, and returns a PATH with them. */
  programs(scripts: Readonly<Record<string, string>>): string {
    const bin = mkdtempSync(join(this.directory, "bin-"))
    chmodSync(bin, 0o755)
    for (const [name, script] of Object.entries(scripts))
      writeFileSync(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    return `${bin}:${SYSTEM_PATH}`
  }

  place({
    files = FILES,
    path = SYSTEM_PATH,
    makeLink = symlinkSync,
    signal = new AbortController().signal,
  }: {
    files?: readonly AgentFile[]
    path?: string
    makeLink?: (target: string, path: string) => void
    signal?: AbortSignal
  } = {}) {
    const parts = { clock: systemClock, user: USER, path, makeLink }
    return placeAgentFiles(files, this.roots, parts, signal)
  }

  /** Lists everything in the home: its kind, its owner, and a link's target or a file's content. */
  listing(): Record<string, string> {
    const lines: Record<string, string> = {}
    const add = (directory: string) => {
      for (const name of readdirSync(this.path(directory)).sort()) {
        const at = join(directory, name)
        const entry = lstatSync(this.path(at))
        const whose = USER && entry.uid !== USER.uid ? " of another" : ""
        if (entry.isSymbolicLink())
          lines[at] = `-> ${readlinkSync(this.path(at)).replace(this.directory, "")}${whose}`
        else if (entry.isDirectory()) {
          lines[at] = `directory${whose}`
          add(at)
        } else lines[at] = `${readFileSync(this.path(at), "utf8")}${whose}`
      }
    }
    add("")
    return lines
  }

  close(): void {
    rmSync(this.directory, { recursive: true, force: true })
  }
}
