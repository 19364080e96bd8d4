import { once } from "node:events"
import { createInterface } from "node:readline"
import { expect } from "vitest"
import { exitOf, startProcess } from "./berth.ts"

/** Runs a server whose log is a terminal, reads its first line, and ends it as the terminal's Ctrl-C does. */
export const expectLogForPeople = async (command: string): Promise<void> => {
  const child = startProcess("script", ["-qefc", `exec ${command} >/dev/null`, "/dev/null"], {
    env: { SHELL: "/bin/sh", TERM: "xterm", NO_COLOR: "1" },
  })
  const [line] = await once(createInterface({ input: child.stdout }), "line")
  expect(line).toMatch(/^\S+ server\.start url=http:\S+ dataDir=\S+ \S+ ms$/)
  expect(line).not.toContain('"level"')
  child.stdin.write("\x03")
  expect(await exitOf(child)).toBe(0)
}
