import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import type { User } from "../user.ts"

/** Tries, as the user, to read or change a process, and prints the outcome of each try. */
const ATTACK = `
const { openSync, readdirSync, readFileSync } = require("node:fs")
const at = "/proc/" + process.argv[1] + "/"
const tries = {
  "write its memory": () => openSync(at + "mem", "r+"),
  "read its memory": () => openSync(at + "mem", "r"),
  "see its layout": () => readFileSync(at + "maps"),
  "read its environment": () => readFileSync(at + "environ"),
  "open its descriptors": () => readdirSync(at + "fd"),
  "enter its directory": () => readdirSync(at + "cwd"),
}
const outcomes = {}
for (const [name, act] of Object.entries(tries))
  try { act(); outcomes[name] = "done" } catch ({ code }) { outcomes[name] = code }
process.kill(Number(process.argv[1]), "SIGUSR1")
console.log(JSON.stringify(outcomes))`

/** Runs the attack on a process with the user's own id. Also sends it SIGUSR1. */
export const reach = (pid: number, { uid, gid }: User): Record<string, string> => {
  const { stdout } = spawnSync(process.execPath, ["-e", ATTACK, String(pid)], {
    uid,
    gid,
    cwd: "/",
    env: {},
    encoding: "utf8",
  })
  return JSON.parse(stdout)
}

/** The outcomes for a process that is protected from its user. */
export const OUT_OF_REACH = {
  "write its memory": "EACCES",
  "read its memory": "EACCES",
  "see its layout": "EACCES",
  "read its environment": "EACCES",
  "open its descriptors": "EACCES",
  "enter its directory": "EACCES",
}

const SIGUSR1 = 10

/** Whether the process catches SIGUSR1, at which node would open its inspector. */
export const hearsInspectorSignal = (pid: number): boolean => {
  const caught = /SigCgt:\s+([0-9a-f]+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]
  return ((BigInt(`0x${caught}`) >> BigInt(SIGUSR1 - 1)) & 1n) === 1n
}

export const idsOf = (pid: number) => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  const line = (name: string) => new RegExp(`^${name}:[ \\t]*(.*)$`, "m").exec(status)?.[1]?.trim()
  return { uids: line("Uid"), gids: line("Gid"), groups: line("Groups"), rights: line("CapPrm") }
}
