import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { carryEnvironment } from "../../processes/carried-environment.ts"
import { Family } from "../../processes/testing/family.ts"

export const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url))

export interface Program {
  readonly family: Family
  /** Directory of its assets, in which its shells start. */
  readonly directory: string
  readonly child: ChildProcess
  readonly port: number
  /** The pids of the processes that it started. */
  others(): number[]
  residentBytes(): number
  end(): void
}

/** Starts the web terminal as a program of its own, with `/bin/sh` for each viewer. */
export const startProgram = async (script = "// xterm"): Promise<Program> => {
  const family = new Family()
  const directory = mkdtempSync(join(tmpdir(), "berth-terminal-"))
  writeFileSync(join(directory, "xterm.js"), script)
  writeFileSync(join(directory, "xterm.css"), "/* xterm */")
  const shells = { ...family.env, SHELL: "/bin/sh", PS1: "$ ", LC_ALL: "C.UTF-8" }
  const child = spawn(process.execPath, ["--conditions=source", MAIN, directory, directory], {
    env: { ...family.env, PORT: "0", ...carryEnvironment(shells) },
    stdio: ["ignore", "pipe", "inherit"],
  })
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream })
  const [line] = await once(lines, "line")
  return {
    family,
    directory,
    child,
    port: Number(/:(\d+)\/$/.exec(line)?.[1]),
    others: () => family.running().filter((pid) => pid !== child.pid),
    residentBytes: () => residentBytes(child.pid as number),
    end: () => {
      family.killAll()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

const residentBytes = (pid: number): number => {
  const kib = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]
  return Number(kib) * 1024
}
