import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { writeSync } from "node:fs"
import { openPty } from "@berth/supervisor/pty/open"
import { onPty } from "@berth/supervisor/terminals/program"

/** Starts a program on a terminal, for a person who sits at it. */
export const sitAt = (command: readonly string[], env: NodeJS.ProcessEnv) => {
  const pty = openPty({ cols: 80, rows: 24 }, undefined)
  const [file, ...args] = onPty({ command, cwd: "/", path: pty.path })
  // The leader of a new session gets the terminal that it opens first.
  const child = spawn(file, args, { env, detached: true, stdio: "ignore" })
  const ended = once(child, "exit").then(([status, signal]) => status ?? signal)
  let shown = ""
  let wake = () => {}
  pty.stream.on("error", () => {})
  pty.stream.on("data", (bytes: Buffer) => {
    shown += bytes.toString()
    wake()
  })
  return {
    child,
    ended,
    resize: pty.resize,
    shown: () => shown,
    type: (text: string) => void writeSync(pty.fd, text),
    /** Resolves when the screen has shown it. */
    see: async (pattern: RegExp): Promise<RegExpExecArray> => {
      for (;;) {
        const found = pattern.exec(shown)
        if (found !== null) return found
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
    },
    /** Whether typed text comes to the program by lines, as it does for a shell. */
    isByLines: () =>
      / icanon/.test(execFileSync("stty", ["-F", pty.path, "-a"], { encoding: "utf8" })),
    close: async () => {
      child.kill("SIGKILL")
      await ended
      pty.close()
    },
  }
}
