import { describe, expect, it, onTestFinished } from "vitest"
import { processesOf } from "../boot/stage.ts"
import type { Stage } from "./load.ts"
import { sitAt } from "./pty.ts"

/** A script that reports resizes and interrupts. */
const LISTENER = `trap 'echo "resized to $(stty size)"' WINCH; trap 'echo interrupted; exit 7' INT
echo listening; while :; do sleep 0.05; done`

export const openShell = ({ server }: Stage, args: readonly string[]) => {
  const sitting = sitAt(server.commandOf(["shell", ...args]), server.env)
  onTestFinished(() => sitting.close())
  return sitting
}

/** Adds the cases of `berth shell` for a person at a terminal. */
export const describeShell = (stage: () => Stage): void => {
  describe("berth shell", () => {
    it("shows a shell that takes typed lines, and ends with its status", async () => {
      const person = openShell(stage(), ["app", "--cwd", "/tmp", "--", "sh"])
      await person.see(/[$#] $/)
      expect(person.isByLines()).toBe(false)
      person.type("echo he''llo é from $PWD; stty size\n")
      await person.see(/hello é from \/tmp\r\n24 80\r\n/)
      person.type("exit 5\n")
      expect(await person.ended).toBe(5)
      expect(person.isByLines()).toBe(true)
    })

    it("passes on resizes of the window and interrupts", async () => {
      const person = openShell(stage(), ["app", "sh", "-c", LISTENER])
      await person.see(/listening/)
      person.resize({ cols: 101, rows: 37 })
      await person.see(/resized to 37 101/)
      person.type("\x03")
      await person.see(/interrupted/)
      expect(await person.ended).toBe(7)
      expect(person.isByLines()).toBe(true)
    })

    it("leaves no process inside when its window is closed, or when it is ended", async () => {
      const { box } = stage()
      const inside = () =>
        processesOf(box.id).filter(({ command }) => command.startsWith("sleep 4"))
      for (const signal of ["SIGHUP", "SIGTERM"] as const) {
        const person = openShell(stage(), ["app", "sh", "-c", "echo up; exec sleep 4712"])
        await person.see(/up/)
        expect(inside()).toHaveLength(1)
        person.child.kill(signal)
        await person.ended
        expect(inside()).toEqual([])
        expect(person.isByLines()).toBe(true)
      }
    })

    it("attaches to a terminal again, which goes on when the attached client leaves", async () => {
      const first = openShell(stage(), ["app", "sh"])
      await first.see(/[$#] $/)
      first.type("echo earl''ier\n")
      await first.see(/earlier\r\n/)
      const [terminal] = (await stage().box.pty.list()).filter(({ exit }) => exit === null)
      const second = openShell(stage(), ["app", "--attach", terminal?.id ?? ""])
      await second.see(/earlier\r\n/)
      second.child.kill("SIGHUP")
      await second.ended
      first.type("exit 3\n")
      expect(await first.ended).toBe(3)
    })
  })
}
