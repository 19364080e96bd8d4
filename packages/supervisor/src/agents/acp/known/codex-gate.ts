#!/usr/bin/env node
/**
 * Stands in for Codex's server: the adapter starts this program, which changes each message with `hold` and passes it
 * on.
 */
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
  // Drops a line that does not parse: Codex might read it differently.
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
