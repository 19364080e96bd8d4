#!/usr/bin/env node
/** Codex's server as the adapter starts it, with every message to it held: see `hold`. */
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { objectIn } from "../../read.ts"
import { hold } from "./codex-hold.ts"

const { BERTH_CODEX = "", ...env } = process.env
const child = spawn(process.execPath, [BERTH_CODEX, ...process.argv.slice(2)], {
  stdio: ["pipe", "inherit", "inherit"],
  env,
})

const lines = createInterface({ input: process.stdin })
lines.on("line", (line) => {
  const message = parse(line)
  // A line that is no message could be read otherwise by Codex than here: it does not pass.
  if (message === undefined) return
  if (!child.stdin.write(`${JSON.stringify(hold(message))}\n`)) lines.pause()
})
lines.on("close", () => child.stdin.end())
child.stdin.on("drain", () => lines.resume())
child.stdin.on("error", () => {})
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const)
  process.on(signal, () => child.kill(signal))
child.on("error", () => process.exit(1))
child.on("exit", (status) => process.exit(status ?? 1))

function parse(line: string) {
  try {
    return objectIn(JSON.parse(line))
  } catch {
    return undefined
  }
}
