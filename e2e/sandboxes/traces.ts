import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs"
import type { SandboxId } from "@berth/protocol/ids"
import { processesOf } from "../boot/stage.ts"

/** Watches by how much a process's memory grows at the most from now on. */
export const watchMemory = (pid: number) => {
  // This makes the kernel count the peak anew.
  writeFileSync(`/proc/${pid}/clear_refs`, "5")
  const before = peakMb(pid)
  return { grownMb: () => peakMb(pid) - before }
}

/** The most memory that a process has had. */
export const peakMb = (pid: number): number => {
  const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  return Number(kilobytes) / 1024
}

export const supervisorOf = (sandbox: SandboxId): number => pidIn(sandbox, "supervisor/main.cjs")
export const filesWorkerOf = (sandbox: SandboxId): number =>
  pidIn(sandbox, "supervisor/files-worker.cjs")

const pidIn = (sandbox: SandboxId, program: string): number => {
  const found = processesOf(sandbox).find(
    ({ command }) => /^\S+\/node /.test(command) && command.includes(program),
  )
  if (found === undefined) throw new Error(`no ${program} runs in ${sandbox}`)
  return found.pid
}

/** The traces that a call through the server could leave: its connections on both sides, and processes inside. */
export const tracesOf = (server: number, sandbox: SandboxId) => ({
  server: unixSocketsOf(server),
  supervisor: unixSocketsOf(supervisorOf(sandbox)),
  inside: processesOf(sandbox)
    .map(({ command }) => command)
    .toSorted(),
})

/** The number of Unix sockets of a process. */
const unixSocketsOf = (pid: number): number => {
  const lines = readFileSync(`/proc/${pid}/net/unix`, "latin1").split("\n").slice(1)
  const inodes = new Set(lines.map((line) => `socket:[${line.split(/ +/)[6]}]`))
  return openFiles(pid).filter((target) => inodes.has(target)).length
}

const openFiles = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
    } catch {
      return []
    }
  })

/** Whether the server's end of a client's TCP connection is still there. */
export const hasConnectionFrom = (server: number, clientPort: number): boolean => {
  const hex = clientPort.toString(16).toUpperCase().padStart(4, "0")
  const table = readFileSync(`/proc/${server}/net/tcp`, "latin1")
  // The inode of a socket is 0 once no process has it.
  const ours = new RegExp(`^ *\\d+: \\S+ \\S+:${hex} (?:\\S+ ){4} *\\d+ +\\d+ ([1-9]\\d*)`, "m")
  return ours.test(table)
}
